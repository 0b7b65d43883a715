"""The rule about unsolicited frames (docs/protocol.md §3.2, §4.1)."""

from operator import itemgetter

from messenger.link import Protocol
from toolkit.checks.audit.rule import Book, Rule, Side
from toolkit.checks.audit.talk import REORDERED_S
from toolkit.checks.replies import first_unsolicited, word_of
from toolkit.checks.wires import Entry, LinkLog

ASKED = Rule(
    "handshake_order",
    "3.2 4.1",
    Side.BOTH,
    "Each frame of a handshake answers a received frame, at most once per frame received; messages and acks wait "
    "until the link is open.",
)
RULES = (ASKED,)
_FIRST = {"HELLO": Protocol.V2, "IDENTIFY": Protocol.V1}
"""The frame after the banner, which distinguishes the protocols."""


def judge_order(link: LinkLog, book: Book) -> None:
    """Judge the frames that one end of a link has sent."""
    protocol = link_protocol(link)
    if protocol is None:
        return
    first_data = next((entry for entry in link.data if entry[1].fields["direction"] == "tx"), None)
    frames = link.talk if first_data is None else sorted([*link.talk, first_data], key=itemgetter(0))
    wrong = _first_unsolicited(protocol, link, frames, first_data)
    may_be_swapped = wrong is not None and "frame" in frames[0][1].fields
    if may_be_swapped and _first_unsolicited(protocol, link, sorted(frames, key=_earliest_s), first_data) is None:
        return  # a capture may have packets of the two directions in another order than the wire
    place, text = wrong or (link.talk[0][0], "")
    book.judge(ASKED, link, place, holds=wrong is None, text="{}", values=text)


def _first_unsolicited(
    protocol: Protocol, link: LinkLog, frames: list[Entry], first_data: Entry | None
) -> tuple[int, str] | None:
    """Return the position of the first unsolicited frame, and the reason; None if there is none."""
    before = frames if first_data is None else frames[: frames.index(first_data)]
    wrong = first_unsolicited(
        protocol, link.dialled, tuple([word_of(record.fields) for _, record in before]), first_data is not None
    )
    return None if wrong is None else (frames[wrong[0]][0], wrong[1])


def _earliest_s(entry: Entry) -> float:
    """Return the earliest time in seconds at which a captured frame may have passed, relative to sent frames."""
    record = entry[1]
    return record.time_s - (REORDERED_S if record.fields["direction"] == "rx" else 0.0)


def link_protocol(link: LinkLog) -> Protocol | None:
    """Return the link's protocol, by this end's own frames first; None if they do not show it."""
    beginning = (record["tag"] for _, record in (*link.tx[:2], *link.rx[:2]))
    return next((_FIRST[tag] for tag in beginning if tag in _FIRST), None)
