"""The table of all wire rules, and the audit of a history by them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.checks.audit import data, numbers, order, v1, v2
from toolkit.checks.audit.compared import Compared
from toolkit.checks.audit.rule import Book, Broken, Rule
from toolkit.checks.audit.talk import EarlierLinks, Judges, Talk
from toolkit.checks.index import Index
from toolkit.checks.records import FOLDED
from toolkit.checks.result import Findings
from toolkit.checks.wires import Entry, LinkLog

RULES: tuple[Rule, ...] = (*order.RULES, *v2.RULES, *v1.RULES, *numbers.RULES, *data.RULES)
"""Every rule, in the order of a connection."""
_SENT: Judges = {
    **v2.SENT,
    **v1.SENT,
    "MESSAGE": data.message_sent,
    "MSG": data.message_sent,
    "ACK": data.ack_sent,
    "KEEPALIVE2_ACK": data.keepalive_answered,
    FOLDED: data.folded_sent,
}
_RECEIVED: Judges = {
    **v2.RECEIVED,
    **v1.RECEIVED,
    "MESSAGE": data.message_received,
    "MSG": data.message_received,
    "KEEPALIVE2": data.keepalive_received,
    FOLDED: data.folded_received,
}
_LAST = 1 << 62
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of judging a history by every wire rule."""

    counts: Mapping[Rule, int]
    """By rule, the number of frames that it judged; rules that judged none are missing."""
    broken: list[Broken]
    """The frames that break a rule, in the order of the history."""

    @property
    def judged(self) -> list[Rule]:
        """The rules that judged at least one frame."""
        return [rule for rule in RULES if self.counts.get(rule)]

    @property
    def not_judged(self) -> list[Rule]:
        """The rules that judged no frame; :attr:`Rule.needs` gives the reason."""
        return [rule for rule in RULES if not self.counts.get(rule)]


def audit(index: Index, compared: Compared | None = None) -> Audit:
    """Judge every frame of a history by every wire rule, once per history.

    A frame that a node sends is judged by what the node had received before. Links that a capture does not contain
    from their banners on are not judged.

    Args:
        index: the history, or a part of one.
        compared: takes what is compared between sessions, and is judged after the last part; None judges it here.
    """
    found = index.judged.get(audit)
    if not isinstance(found, Audit):
        found = index.judged[audit] = _audit(index, compared)
    return found


def _audit(index: Index, compared: Compared | None) -> Audit:
    book = Book(index.history.judged)
    taking = compared or Compared()
    earlier = EarlierLinks(taking.served)
    links = [link for link in index.links.values() if link.opened is not None and link.is_whole]
    for link in links:
        if not link.dialled:
            earlier.accepted.setdefault(link.key[:2], []).append(link)
    for link in sorted(links, key=_opened):
        log = index.session_of(link)
        is_ours = log is not None and log.last_state is not None
        _walk(Talk(book, link, earlier, is_ours=is_ours))
        order.judge_order(link, book)
    numbers.judge_numbers(index, book)
    records = index.history.records
    broken = [
        Broken(each.rule, each.record, each.link, each.text, records[each.record].fields.get("frame"))
        for each in book.broken
    ]
    counts = Counter(book.counts)
    taking.take(index)
    if compared is None:
        more, found = taking.judge()
        counts.update(more)
        broken += [each for _, each in found]
    return Audit(counts, sorted(broken, key=_place))


def _opened(link: LinkLog) -> int:
    return _LAST if link.opened is None else link.opened


def _place(broken: Broken) -> int:
    return broken.record


def _walk(talk: Talk) -> None:
    """Judge the frames of one end of a link, in order."""
    link = talk.link
    entries = sorted([*link.talk, *link.data])
    gaps = _ahead_of_gaps(entries, link.has_bad_frames)
    if _NOWHERE in gaps:
        talk.miss()
    for position, record in entries:
        frame = record.fields
        tag, fields = frame["tag"], frame["fields"]
        is_sent, talk.position, talk.time_s = frame["direction"] == "tx", position, record.time_s
        judge = (_SENT if is_sent else _RECEIVED).get(tag)
        if tag == "BANNER" and is_sent and not fields and link.far is not None and link.far.rx:
            fields = link.far.rx[0][1].fields["fields"]  # a sender records its banner without them
        if is_sent and len(frame) > _OWN_FIELDS:
            data.layout_sent(talk, frame)
        if judge is not None:
            judge(talk, fields)
        if tag not in _DATA:
            (talk.sent if is_sent else talk.received)[tag] = fields
        if position in gaps:
            talk.miss()
    if link.may_lack_its_end:
        talk.miss()


def _ahead_of_gaps(entries: list[Entry], has_bad_frames: bool) -> set[int]:  # noqa: FBT001 - of the link
    """Return the positions of the frames after which the history lacks bytes of their direction.

    If the link has bad frames, which the history omits, bytes may also be missing after the last frames.
    """
    found: set[int] = set()
    last, ends = {"tx": _NOWHERE, "rx": _NOWHERE}, {"tx": 0, "rx": 0}
    for position, record in entries:
        frame = record.fields
        way = frame["direction"]
        if frame["offset"] != ends[way]:
            found.add(last[way])
        last[way], ends[way] = position, frame["offset"] + frame["length"]
    return found | set(last.values()) if has_bad_frames else found


_DATA = frozenset({"MESSAGE", "MSG", "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK", FOLDED})
_OWN_FIELDS = 8
"""Number of fields of a frame record of a run; frame records of captures have more."""


def wire_rules(index: Index, findings: Findings) -> None:
    """wire_rules: every frame keeps the rules of the wire protocol.

    The rules, each with its section of the protocol, are in docs/audit.md.
    """
    found = audit(index)
    for broken in found.broken:
        findings.add(broken.record, str(broken))
    if not found.counts:
        findings.skip("no link was recorded from its banners on")
