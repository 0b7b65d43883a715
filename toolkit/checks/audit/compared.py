"""Rules that compare the numbers and cookies of different sessions, over all links of a history or of its parts.

See docs/protocol.md §3.6, §4.9.
"""

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypeVar

from toolkit.checks.audit.rule import Broken, Rule, Side
from toolkit.checks.audit.talk import Fields, number
from toolkit.checks.index import Index
from toolkit.checks.wires import LinkKey, LinkLog

GLOBAL_SEQ = Rule(
    "global_seq",
    "3.6",
    Side.DIALLER,
    "Each dial of a messenger to one address has a higher global_seq than its earlier dials to that address.",
    "no messenger has dialled an address twice",
)
FRESH_SERVER = Rule("fresh_server_cookie", "4.9", Side.ACCEPTOR, "No server_cookie is assigned twice.")
FRESH_CLIENT = Rule(
    "fresh_client_cookie",
    "4.9",
    Side.DIALLER,
    "No two sessions of a messenger dial with the same client_cookie, unless the peer assigned it.",
)
_ADDRS = (("CLIENT_IDENT", "addrs"), ("SESSION_RECONNECT", "addrs"), ("IDENTIFY", "client_addr"))


def sent(index: Index, *tags: str) -> list[tuple[int, LinkLog, Fields]]:
    """Return the frames of some tags at their senders, in order."""
    found = [
        (position, link, record.fields["fields"])
        for tag in tags
        for position, link, record in index.by_tag.get(tag, ())
        if record.fields["direction"] == "tx"
    ]
    return sorted(found, key=itemgetter(0)) if len(tags) > 1 else found


class _Place(NamedTuple):
    """A record about a link."""

    time_s: float
    record: int
    """Its position, over all parts."""
    link: str
    frame: int | None
    """Number of the frame in its capture."""


_T = TypeVar("_T", "_Dial", "_Grant", "_Ident")


class _Dial(NamedTuple):
    """The first frame of a dialled link that has a global_seq."""

    place: _Place
    """Place of the dial."""
    frame: _Place
    dialler: tuple[object, ...]
    """Process, own address and address of the peer."""
    global_seq: int


class _Grant(NamedTuple):
    """A SERVER_IDENT with a cookie, at its sender."""

    place: _Place
    server_cookie: int


class _Ident(NamedTuple):
    """A CLIENT_IDENT, at its sender or at its receiver."""

    place: _Place
    is_sent: bool
    process: tuple[str, int]
    client_cookie: int | None
    session: int | None
    in_session: bool
    """False if a capture shows no answer, and so no session."""


class Compared:
    """What the rules compare: some numbers of each handshake, so that the parts of a history can leave memory."""

    def __init__(self) -> None:
        self.served: dict[object, LinkKey] = {}
        """What the links of earlier parts have put into ``EarlierLinks.served``."""
        self._parts = 0
        self._records = 0
        self._dials: list[_Dial] = []
        self._grants: list[_Grant] = []
        self._idents: list[_Ident] = []
        self._counts: Counter[Rule] = Counter()
        self._broken: list[tuple[float, Broken]] = []

    def take(self, part: Index) -> None:
        """Take the numbers of the next part."""
        judged = part.history.judged
        self._take_dials(part)
        for position, link, fields in sent(part, "SERVER_IDENT"):
            cookie = number(fields, "server_cookie")
            if cookie and position in judged:
                self._grants.append(_Grant(self._place(part, position, link), cookie))
        self._take_idents(part)
        self._parts += 1
        self._records += len(judged)

    def judge(self) -> tuple[Counter[Rule], list[tuple[float, Broken]]]:
        """Judge what was taken, once: a single part in the order of its records, several in order of time.

        Returns:
            the number of frames that each rule judged; the frames that break one, with their times in seconds.
        """
        self._judge_dials()
        self._judge_grants()
        self._judge_idents()
        return self._counts, self._broken

    def _place(self, part: Index, position: int, link: LinkLog) -> _Place:
        record = part.history[position]
        return _Place(
            record.time_s,
            self._records + position - part.history.judged_since,
            link.key.link,
            record.fields.get("frame"),
        )

    def _in_order(self, taken: Iterable[_T]) -> list[_T]:
        if self._parts == 1:
            return sorted(taken, key=lambda each: each[0].record)
        return sorted(taken, key=lambda each: each[0])

    def _judge(self, rule: Rule, place: _Place, *, holds: bool, text: str) -> None:
        self._counts[rule] += 1
        if not holds:
            self._broken.append((place.time_s, Broken(rule, place.record, place.link, text, place.frame)))

    def _take_dials(self, part: Index) -> None:
        own: dict[LinkKey, object] = {}
        for tag, name in _ADDRS:
            for _, link, fields in sent(part, tag):
                own[link.key] = fields.get(name) or own.get(link.key)
        seen: set[LinkKey] = set()
        for position, link, fields in sent(part, "CLIENT_IDENT", "SESSION_RECONNECT", "CONNECT"):
            value = number(fields, "global_seq")
            if value is not None and link.dialled and link.key not in seen:
                seen.add(link.key)
                if position not in part.history.judged:
                    continue
                dialler = (*link.key[:2], own.get(link.key), link.peer)
                opened = self._place(part, link.opened or 0, link)
                self._dials.append(_Dial(opened, self._place(part, position, link), dialler, value))

    def _judge_dials(self) -> None:
        last: dict[object, int] = {}
        for dial in self._in_order(self._dials):
            value, (*_, own, peer) = dial.global_seq, dial.dialler
            before = last.get(dial.dialler)
            if before is not None and not (value == 1 and str(own).partition(",")[0].endswith("/0")):
                text = f"global_seq {value} is not above {before} of the previous dial to {peer}"
                self._judge(GLOBAL_SEQ, dial.frame, holds=value > before, text=text)
            last[dial.dialler] = value

    def _judge_grants(self) -> None:
        granted: set[int] = set()
        for place, cookie in self._in_order(self._grants):
            text = f"server_cookie {cookie:x} was granted before"
            self._judge(FRESH_SERVER, place, holds=cookie not in granted, text=text)
            granted.add(cookie)

    def _take_idents(self, part: Index) -> None:
        answered = {
            link.key for _, link, record in part.by_tag.get("SERVER_IDENT", ()) if record["direction"] == "rx"
        }
        for log in part.sessions.values():
            state = log.beginning
            if state is not None:  # the peer may have assigned the cookie in a frame that left the history
                place = _Place(state.time_s, self._records + (log.earlier or 0), "", None)
                cookie = number(state.fields, "client_cookie")
                self._idents.append(_Ident(place, False, log.key.process, cookie, log.key.session, True))
        for position, link, record in part.by_tag.get("CLIENT_IDENT", ()):
            if position not in part.history.judged:
                continue
            fields = record.fields
            self._idents.append(
                _Ident(
                    self._place(part, position, link),
                    fields["direction"] == "tx",
                    link.key[:2],
                    number(fields["fields"], "client_cookie"),
                    link.session,
                    "frame" not in fields or link.key in answered,
                )
            )

    def _judge_idents(self) -> None:
        """Judge the cookies of connectors.

        A session that the peer opened keeps the peer's cookie, whichever side dials for it later. So may the next
        session, if the peer is unaware that this side ended the first one. A capture does not show the session of
        a dial without an answer. The next dial has its cookie.
        """
        firsts: dict[object, _Ident] = {}
        from_peers: set[object] = set()
        for ident in self._in_order(self._idents):
            cookie_of = (ident.process, ident.client_cookie)
            if not ident.is_sent:
                from_peers.add(cookie_of)
            elif ident.client_cookie and cookie_of not in from_peers:
                first = firsts.get(cookie_of)
                if first is None or not first.in_session:
                    first = firsts[cookie_of] = ident
                own, other = ident.session, first.session
                text = f"client_cookie {ident.client_cookie:x} of session {own} is that of session {other}"
                self._judge(FRESH_CLIENT, ident.place, holds=own == other, text=text)
