"""Describes a capture in sentences: peers, failures and their causes, late or lost messages, encryption."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.requests import Request
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.conduct import Outcome
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import utc

_MOST = 12
"""Number of sentences of one kind; further ones are only counted."""
_MOST_NUMBERS = 8
"""Number of streams or frames that a sentence names; further ones are only counted."""
_SLOW_FACTOR = 5
"""A request is slow if it took this many times the median of its kind, and at least _SLOW_NS."""
_SLOW_NS = 50_000_000
_NANO = 1e9
_Sentence = str | Callable[[], str]
"""A sentence, or the function that makes it if it is shown."""


def explain(analysis: Analysis) -> list[str]:
    """Return the description line by line. Frames have the numbers of ``msgrlab decode``."""
    if analysis.began_ns is None:
        return [
            "There is no link of a messenger in this capture.",
            *_section("What broke", list(_failed(analysis))),
        ]
    lasted_s = ((analysis.capture_ended_ns or analysis.ended_ns) - analysis.began_ns) / _NANO
    lines = [
        f"The capture begins at {utc(analysis.began_ns)} and lasts {lasted_s:.3f} s; times count from there.",
    ]
    lines += _section("What talks to whom", list(_peers(analysis)))
    lines += _section("Is it encrypted?", encryption(analysis))
    lines += _section(
        "What broke, in order", list(_broken(analysis)) or ["Nothing: no reset, refusal or silence."]
    )
    lines += _section("What was late or lost", list(_late(analysis)) or ["Nothing that the capture shows."])
    return lines


def _section(title: str, sentences: Sequence[_Sentence]) -> list[str]:
    if not sentences:
        return []
    shown = [f"  {each if isinstance(each, str) else each()}" for each in sentences[:_MOST]]
    more = len(sentences) - len(shown)
    return ["", title, *shown, *([f"  … and {more:,} more: msgrlab analyze has all"] if more else [])]


def _pairs(analysis: Analysis) -> dict[tuple[str, str], list[LinkView]]:
    """Links by the names of their ends, whichever end opened them; without further hops."""
    found: dict[tuple[str, str], list[LinkView]] = defaultdict(list)
    for link in analysis.links:
        if link.hop_of is None:
            a, b = sorted(link.name(way) for way in Direction)
            found[a, b].append(link)
    return found


def encryption(analysis: Analysis) -> list[str]:
    """Return one line per pair of peers: whether their links are encrypted."""
    return [f"{a} and {b}: {_encryption(links)}" for (a, b), links in _pairs(analysis).items()]


def _encryption(links: list[LinkView]) -> str:
    opened = [link for link in links if link.ready_ns is not None or link.mode == "secure"]
    if not opened:
        return "cannot tell, no link was opened"
    sealed = [link for link in opened if link.mode == "secure"]
    where = f"({_streams(opened)}{_agreed(opened)})"
    if len(sealed) == len(opened):
        return f"encrypted, {sealed[0].protocol} secure mode, {sealed[0].cipher} {where}"
    if not sealed:
        return f"NOT encrypted, {opened[0].protocol} crc mode {where}"
    clear = [link for link in opened if link not in sealed]
    there, here = (f"on {_streams(links)}{_agreed(links)}" for links in (clear, sealed))
    return f"partly: not encrypted {there}; encrypted {here}"


def _agreed(links: list[LinkView]) -> str:
    """Name the frames in which the modes of these links were agreed on; empty if the capture has none."""
    frames = [link.mode_frame for link in links if link.mode_frame is not None]
    return f"; agreed in {_numbered('frame', frames)}" if frames else ""


def _streams(links: list[LinkView]) -> str:
    return _numbered("stream", [link.stream.index for link in links])


def _numbered(word: str, numbers: list[int]) -> str:
    """Return a word, in its plural if need be, and the first numbers in order."""
    shown = ", ".join(map(str, sorted(numbers)[:_MOST_NUMBERS]))
    more = f" and {len(numbers) - _MOST_NUMBERS} more" if len(numbers) > _MOST_NUMBERS else ""
    return f"{word}{'s' * (len(numbers) > 1)} {shown}{more}"


def _peers(analysis: Analysis) -> Iterator[_Sentence]:
    for session in analysis.sessions:
        yield partial(_traffic, session)
    hops = [link for link in analysis.links if link.hop_of is not None]
    for link in hops:
        assert link.hop_of is not None
        yield (
            f"Stream {link.stream.index} ({link.stream.client} to {link.stream.server}) is another hop of stream "
            f"{link.hop_of.stream.index}, through a proxy or an address translation; it is counted once."
        )


def _traffic(session: SessionView) -> str:
    """Describe the parties of a session, and the messages that it carried."""
    first, second = session.parties
    kinds = first.outbox.kinds() + second.outbox.kinds()
    most = ", ".join(f"{count} {name}" for name, count in kinds.most_common(3))
    carried = f": {most}{', …' if len(kinds) > 3 else ''}" if kinds else ", no messages that can be read"
    return (
        f"{first.name} to {second.name} ({session.links[0].protocol}, {_streams(session.links)}, "
        f"{second.address}){carried}."
    )


def _broken(analysis: Analysis) -> Iterator[str]:
    start, end_ns = analysis.began_ns or 0, analysis.capture_ended_ns or analysis.ended_ns
    found: list[tuple[int, str]] = []
    for link in analysis.links:
        tcp = link.stream.tcp
        outcome = tcp.outcome(end_ns)
        if outcome in {Outcome.RESET, Outcome.SILENT}:
            at_ns = tcp.reset.time_ns if tcp.reset else tcp.last_ns
            found.append((at_ns, _end_of(analysis, link, end_ns)))
        elif link.ready_ns is None and link.hop_of is None:
            last = link.outcome or "nothing"
            found.append((link.ended_ns, f"{_between(link)} did not open; the last frame was {last}."))
    found += [(failed.first_ns, text) for failed, text in zip(analysis.failed(), _failed(analysis), strict=True)]
    for at_ns, text in sorted(found):
        yield f"{(at_ns - start) / _NANO:.6f} s: {text}"


def _between(link: LinkView) -> str:
    names = link.name(Direction.TO_SERVER), link.name(Direction.TO_CLIENT)
    return f"the link of {names[0]} to {names[1]} (stream {link.stream.index}, frame {link.last_frame})"


def _end_of(analysis: Analysis, link: LinkView, end_ns: int) -> str:
    text = f"{_between(link)}: {link.ending(end_ns)}"
    after = _resumed_on(analysis, link)
    if after is not None:
        later_ms = (after.began_ns - link.stream.tcp.ended_ns) / 1e6
        return f"{text}; the session went on with stream {after.stream.index}, {later_ms:.1f} ms later."
    return f"{text}."


def _resumed_on(analysis: Analysis, link: LinkView) -> LinkView | None:
    if not analysis.has_session(link):
        return None
    links = analysis.session_of(link.stream.index).links
    place = links.index(link) + 1 if link in links else len(links)
    return links[place] if place < len(links) else None


def _failed(analysis: Analysis) -> Iterator[str]:
    for failed in analysis.failed():
        times = "once" if failed.count == 1 else f"{failed.count:,} times"
        where = f"(stream {failed.first_packet_stream})"
        yield f"{failed.client} connected to {failed.server} {times} without a frame; {failed.ending} {where}."


def _late(analysis: Analysis) -> Iterator[_Sentence]:
    for session in analysis.sessions:
        yield from _lost(session)
    for request in _slow(analysis):
        yield partial(_waited, analysis, request)
    for link in analysis.links:
        names = link.name(Direction.TO_SERVER), link.name(Direction.TO_CLIENT)
        trouble = link.stream.tcp.trouble(*names)
        if trouble:
            yield f"Stream {link.stream.index}: {trouble}."


def _slow(analysis: Analysis) -> list[Request]:
    """Return the slow requests with a reply, slowest first."""
    times: dict[str, list[int]] = defaultdict(list)
    late: list[tuple[int, Request]] = []
    for request in analysis.requests.all:
        if (took_ns := request.latency_ns) is not None:
            times[request.name].append(took_ns)
            if took_ns >= _SLOW_NS:
                late.append((took_ns, request))
    usual_ns = {name: sorted(spans)[len(spans) // 2] for name, spans in times.items()}
    slow = [
        (took_ns, request)
        for took_ns, request in late
        if len(request.sent) > 1
        or took_ns >= _SLOW_FACTOR * usual_ns[request.name]
        or usual_ns[request.name] >= _SLOW_NS
    ]
    return [request for _, request in sorted(slow, key=lambda one: -one[0])]


def _waited(analysis: Analysis, request: Request) -> str:
    """Describe a slow request."""
    assert request.replied is not None
    assert request.latency_ns is not None
    again = f", sent {len(request.sent)} times" if len(request.sent) > 1 else ""
    about = f" of {request.obj}" if request.obj else ""
    frames = ", ".join(str(sent.frame) for sent in request.sent)
    return (
        f"{request.client} to {request.server}, {request.name} tid {request.tid}{about}: "
        f"the reply took {request.latency_ns / 1e6:.1f} ms{again} "
        f"(frames {frames} to {request.replied.frame}){_reason(analysis, request)}."
    )


def _reason(analysis: Analysis, request: Request) -> str:
    """Name the part of a slow request's time that is more than half of it, if it is not just the answer."""
    waits, latency_ns = request.waits, request.latency_ns or 0
    if waits.resend_ns * 2 > latency_ns:
        return f"; {waits.resend_ns / 1e6:.1f} ms of it until it was sent again"
    if (waits.receipt_ns or 0) * 2 > latency_ns:
        return f"; {(waits.receipt_ns or 0) / 1e6:.1f} ms of it until {request.server} had received it"
    below = analysis.requests.below(request)
    below_ns = (below and below.latency_ns) or 0
    if below is None or below.replied is None or below_ns * 2 <= latency_ns:
        return ""
    frames = f"frames {below.sent[0].frame} to {below.replied.frame}"
    return f"; meanwhile {below.name} tid {below.tid} to {below.server} took {below_ns / 1e6:.1f} ms ({frames})"


def _lost(session: SessionView) -> Iterator[str]:
    for party in session.parties:
        to, outbox = session.other(party).name, party.outbox
        if outbox.missing:
            where = f"(session {session.index})"
            yield f"{party.name} to {to}: {outbox.missing:,} messages are not in the capture {where}."
        resent = outbox.resent
        if resent:
            frames = outbox.resent_frames
            yield (
                f"{party.name} to {to}: seqs {resent[0]} to {resent[-1]} were sent again after a reconnect "
                f"(frames {frames[0]} to {frames[-1]}, session {session.index})."
            )
        if outbox.unacked and session.links[-1].stream.tcp.reset is not None:
            yield (
                f"{party.name} to {to}: {len(outbox.unacked)} messages were never acknowledged before the link "
                f"was reset (session {session.index})."
            )
