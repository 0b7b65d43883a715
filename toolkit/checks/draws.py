"""The global_seqs that a messenger draws: one for each dial, each session it grants, each RETRY_GLOBAL.

See docs/protocol.md §3.6.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import islice, takewhile
from operator import itemgetter
from typing import NamedTuple

from toolkit.checks.index import Index
from toolkit.checks.openings import GRANTS
from toolkit.checks.result import Findings
from toolkit.checks.sessions import Process, SessionLog
from toolkit.checks.wires import Entry, LinkLog

_ASKING = ("CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT")
_GRANTING = ("SERVER_IDENT", "CONNECT_REPLY")
_REPLY_TAGS = ("SESSION_RETRY_GLOBAL", "CONNECT_REPLY")

_Numbers = dict[LinkLog, list[tuple[int, int]]]
"""By link, pairs of a position in the history and the number in the frame there."""


class _Draw(NamedTuple):
    """A global_seq that a messenger draws."""

    position: int
    link: str
    number: int | None
    """None if no record shows the number."""
    above: int = 0
    """The peer's global_seq, which the number must exceed; 0 if the peer demanded none."""
    certain: bool = True
    """True if the number was certainly drawn."""


class _Course:
    """States and draws of a session, in the order of the history. A session may have thousands of links."""

    def __init__(self, log: SessionLog) -> None:
        self._states = log.of("state")
        drawn = [(at, link) for link in log.links for at in _drawn_at(link)]
        self._draws = sorted(drawn, key=itemgetter(0))

    def state_after(self, position: int) -> Entry | None:
        """Return the first state record after a position."""
        at = bisect_right(self._states, position, key=itemgetter(0))
        return self._states[at] if at < len(self._states) else None

    def others_draw(self, link: LinkLog, after: int, before: int) -> bool:
        """True if another link draws a number between two positions."""
        first = bisect_right(self._draws, after, key=itemgetter(0))
        between = takewhile(lambda draw: draw[0] < before, islice(self._draws, first, None))
        return any(other is not link for _, other in between)


def drawn_numbers(index: Index, findings: Findings) -> None:
    """Every global_seq that a messenger draws is one above the last, or above what the peer demands."""
    draws: dict[Process, list[_Draw]] = defaultdict(list)
    asked = _numbers(index, _ASKING, "tx")
    raised = _numbers(index, _REPLY_TAGS, "rx", "RETRY_GLOBAL")
    granted = _numbers(index, _GRANTING, "tx", "SEQ", "READY")
    course = cache(_Course)
    for link in index.links.values():
        log = index.session_of(link)
        if log is None or log.last_state is None or link.opened is None:
            continue
        if link.dialled:
            by_state = partial(_by_state, course(log), link)
            found = _dials(index, link, asked.get(link, []), raised.get(link, []), by_state)
        else:
            found = _grants(link, granted.get(link, []))
        draws[log.key.process] += found
    for process, numbers in draws.items():
        numbers.sort()
        in_order = process not in index.sharded
        _judge(findings, process, numbers, in_order=in_order, settled=index.settled.get(process))


def _numbers(index: Index, tags: tuple[str, ...], direction: str, *replies: str) -> _Numbers:
    """Return the global_seqs in frames of some tags; CONNECT_REPLY counts if its own tag is in ``replies``."""
    found: _Numbers = defaultdict(list)
    for tag in tags:
        for position, link, record in index.by_tag.get(tag, ()):
            fields = record.fields["fields"]
            number = fields.get("global_seq")
            if record.fields["direction"] != direction or type(number) is not int:
                continue
            if tag != "CONNECT_REPLY" or fields.get("tag") in replies:
                found[link].append((position, number))
    return found


def _dials(
    index: Index,
    link: LinkLog,
    asked: list[tuple[int, int]],
    replies: list[tuple[int, int]],
    by_state: Callable[[], int | None],
) -> list[_Draw]:
    """Return the number that a dial drew first, and one for each RETRY_GLOBAL after which it continued."""
    assert link.opened is not None
    first = min(asked)[1] if asked else by_state()
    draws = [_Draw(link.opened, link.key.link, first)]
    for position, above in replies:
        number = next((number for at, number in sorted(asked) if at > position), None)
        certain = number is not None and not any(index.is_held(link, tag) for tag in _REPLY_TAGS)
        draws.append(_Draw(position, link.key.link, number, above, certain))
    return draws


def _by_state(course: _Course, link: LinkLog) -> int | None:
    """Return the number of a dial that ended before it sent it, from the state record after its end."""
    if link.closed is None or link.opened is None:
        return None
    after = course.state_after(link.opened)
    if after is None or after[0] < link.closed or course.others_draw(link, link.opened, after[0]):
        return None
    return int(after[1]["global_seq"])


def _drawn_at(link: LinkLog) -> list[int]:
    """Return the positions at which a link draws numbers, apart from those after RETRY_GLOBAL."""
    return _granting(link) if not link.dialled or link.opened is None else [link.opened]


def _granting(link: LinkLog) -> list[int]:
    """Return the positions of decisions that grant a new session; resuming a session draws no number."""
    found = []
    for position, record in link.decisions:
        if record.fields["verdict"] in GRANTS:
            frames = (frame.fields for at, frame in reversed(link.talk) if at < position)
            request = next((frame["tag"] for frame in frames if frame["direction"] == "rx"), "")
            if request != "SESSION_RECONNECT":
                found.append(position)
    return found


def _grants(link: LinkLog, granted: list[tuple[int, int]]) -> list[_Draw]:
    """Return the numbers drawn for the sessions that the acceptor granted."""
    draws = []
    for position in _granting(link):
        number = next((number for at, number in granted if at > position), None)
        draws.append(_Draw(position, link.key.link, number, certain=number is not None))
    return draws


def _judge(
    findings: Findings, process: Process, draws: list[_Draw], *, in_order: bool, settled: int | None
) -> None:
    """Judge the draws of a process. Up to the position ``settled`` others may have left the history."""
    last, unsure = 0, 0
    may_lack = settled is not None
    """True if draws may be missing before the next one."""
    used: dict[int, str] = {}
    for draw in draws:
        due = max(last, draw.above) + 1
        if draw.number is None:
            last, unsure = (due, unsure) if draw.certain else (last, unsure + 1)
            continue
        if may_lack:
            unsure = max(unsure, draw.number - due)
            may_lack = settled is not None and draw.position <= settled
        text = ""
        if draw.number in used:
            text = f"global_seq {draw.number} is that of {used[draw.number]}, too"
        elif in_order and not due <= draw.number <= due + unsure:
            text = f"global_seq {draw.number} is drawn, {due} is due"
        elif draw.number <= draw.above:
            text = f"global_seq {draw.number} is drawn, the peer asks for more than {draw.above}"
        if text:
            findings.add(draw.position, f"{process.node}: {draw.link}: {text}")
        used[draw.number] = draw.link
        last, unsure = max(last, draw.number), 0
