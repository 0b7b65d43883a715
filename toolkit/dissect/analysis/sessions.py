"""Assigns links to sessions: by cookies on v2, by the parties' addresses and connect_seq on v1.

Either of the two parties of a session may have opened any of its links, so each link records which party dialled.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from toolkit.dissect.analysis.links import HandshakeStep, LinkView
from toolkit.dissect.analysis.messages import Outbox, Party
from toolkit.dissect.analysis.rows import RowStore
from toolkit.dissect.direction import Direction

_LONGEST_DELAY_NS = 60_000_000_000
"""Longest delay between two hops of one link."""


@dataclass(slots=True, eq=False)
class SessionView:
    """One session over all its links."""

    index: int
    """Its number, from 0, in the order in which sessions began."""
    parties: tuple[Party, Party]
    """The connector of its first link, and the other side."""
    identity: str = ""
    """The cookies or the addresses, in words."""
    joined: dict[LinkView, None] = field(default_factory=dict)
    """Its links, in order. A dict, because a session that is resumed again and again may have any number."""

    @property
    def links(self) -> list[LinkView]:
        """Its links, in the order in which they joined it."""
        return list(self.joined)

    def party(self, link: LinkView, direction: Direction) -> Party:
        """Return the sender in a direction of one of its links."""
        return self.parties[link.side(direction)]

    def other(self, party: Party) -> Party:
        """Return the other party."""
        return self.parties[1] if party is self.parties[0] else self.parties[0]

    @property
    def title(self) -> str:
        """The names of both parties."""
        return f"{self.parties[0].name} ↔ {self.parties[1].name}"


class Sessions:
    """Assigns links to sessions while their handshakes are read.

    Args:
        store: holds the messages of the sessions.
    """

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self.all: list[SessionView] = []
        self._begun = 0
        """Number of sessions so far, including those that were dropped."""
        self._by_key: dict[object, SessionView] = {}
        """Sessions by both cookies on v2, by both addresses on v1."""
        self._of_link: dict[LinkView, SessionView] = {}
        self._cookies: dict[LinkView, tuple[int, str]] = {}
        """Client cookie and address of links whose CLIENT_IDENT was seen."""
        self._attempts: dict[int, LinkView] = {}
        """The first link of each connection attempt, by the hash of the attempt's key. A second link with the same
        attempt is another hop of the first."""

    def has(self, link: LinkView) -> bool:
        """True if a link belongs to a session: its handshake finished, or it carried a message."""
        return (link.hop_of or link) in self._of_link

    def of(self, link: LinkView) -> SessionView:
        """Return the session of a link; a link that never identified its session is a session by itself."""
        if link.hop_of is not None:
            link = link.hop_of
        found = self._of_link.get(link)
        if found is None:
            found = self._begin(link, link, link.stream.client, link.stream.server, "one link")
        return found

    def forget(self, sessions: Collection[SessionView], links: Collection[LinkView]) -> None:
        """Drop sessions and links on which no more frames come. Takes time in proportion to all that is known."""
        for link in links:
            session = self._of_link.pop(link, None)
            if session is not None:
                session.joined.pop(link, None)
            self._cookies.pop(link, None)
        over = set(sessions)
        ended = set(links).union(*(session.joined for session in over))
        self.all = [session for session in self.all if session not in over]
        self._by_key = {key: session for key, session in self._by_key.items() if session not in over}
        self._of_link = {link: session for link, session in self._of_link.items() if session not in over}
        self._attempts = {key: link for key, link in self._attempts.items() if link not in ended}

    def attempt(self, link: LinkView, key: object, time_ns: int) -> None:
        """Note a key that is unique to a connection attempt; a second link with the same key is another hop."""
        first = self._attempts.setdefault(hash(key), link)
        if first is not link and link.hop_of is None and time_ns - first.ended_ns <= _LONGEST_DELAY_NS:
            link.hop_of = first.hop_of or first

    def take(self, link: LinkView, step: HandshakeStep) -> None:
        """Process a frame of a handshake."""
        key = _attempt(link, step)
        if key is not None:
            self.attempt(link, key, step.time_ns)
        if link.hop_of is not None:
            return
        match step.tag:
            case "CLIENT_IDENT":
                self._cookies[link] = _number(step, "client_cookie"), str(step.fields.get("addrs", ""))
            case "SERVER_IDENT":
                self._server_ident(link, step)
            case "SESSION_RECONNECT":
                self._reconnect(link, step)
            case "CONNECT":
                self._connect(link, step)
            case "CONNECT_REPLY":
                self._connect_reply(link, step)

    # ---- v2

    def _server_ident(self, link: LinkView, step: HandshakeStep) -> None:
        cookie, server = _number(step, "server_cookie"), str(step.fields.get("addrs", ""))
        client_cookie, client = self._cookies.get(link, (0, link.stream.client))
        if cookie and client_cookie:
            self._begin(link, (client_cookie, cookie), client, server, _cookies(client_cookie, cookie))
        else:
            self._begin(link, link, client, server, "one link, no cookies")

    def _reconnect(self, link: LinkView, step: HandshakeStep) -> None:
        """Process SESSION_RECONNECT. Either side may send it; the cookies keep their order of the first link.

        See docs/protocol.md §4.9.
        """
        cookies = _number(step, "client_cookie"), _number(step, "server_cookie")
        address = str(step.fields.get("addrs", ""))
        self._go_on(link, cookies, address, link.stream.server, _cookies(*cookies))

    # ---- v1

    def _connect(self, link: LinkView, step: HandshakeStep) -> None:
        if _number(step, "connect_seq"):
            client, server = _addresses(link)
            self._go_on(link, frozenset((client, server)), client, server, f"addresses {client} and {server}")

    def _connect_reply(self, link: LinkView, step: HandshakeStep) -> None:
        resumes = link.connect is not None and _number(link.connect, "connect_seq")
        if step.fields.get("tag") in {"READY", "SEQ"} and not resumes:
            client, server = _addresses(link)
            self._begin(link, frozenset((client, server)), client, server, f"addresses {client} and {server}")

    # ---- both

    def _begin(self, link: LinkView, key: object, client: str, server: str, identity: str) -> SessionView:
        sides = zip((client, server), map(link.name, Direction), strict=True)
        first, second = (Party(address, name, Outbox(self._store)) for address, name in sides)
        session = SessionView(self._begun, (first, second), identity=identity)
        self._begun += 1
        self.all.append(session)
        self._by_key[key] = session
        self._join(session, link, client)
        return session

    def _go_on(self, link: LinkView, key: object, client: str, server: str, identity: str) -> None:
        session = self._by_key.get(key)
        if session is None:  # it began before the capture
            self._begin(link, key, client, server, identity)
        else:
            self._join(session, link, client)

    def _join(self, session: SessionView, link: LinkView, client: str) -> None:
        before = self._of_link.get(link)
        if before is not None and before is not session:
            del before.joined[link]
        link.dialler = 1 if client == session.parties[1].address else 0
        link.parties = session.parties
        self._of_link[link] = session
        session.joined[link] = None


def _attempt(link: LinkView, step: HandshakeStep) -> object:
    """Return the key of a connection attempt: global_seq, and the entity that counts it; None for other frames."""
    match step.tag:
        case "CLIENT_IDENT" | "SESSION_RECONNECT":
            seqs = _number(step, "global_seq"), _number(step, "connect_seq")
            entity = str(step.fields.get("addrs", "")), _number(step, "gid")
            return (
                step.tag,
                *seqs,
                *entity,
                str(step.fields.get("target_addr", "")),
                _number(step, "server_cookie"),
            )
        case "CONNECT" if link.addresses:
            seqs = _number(step, "global_seq"), _number(step, "connect_seq")
            return step.tag, *seqs, *_addresses(link)
    return None


def _number(step: HandshakeStep, name: str) -> int:
    value = step.fields.get(name)
    return value if isinstance(value, int) else 0


def _cookies(client_cookie: int, server_cookie: int) -> str:
    return f"cookies {client_cookie:x} and {server_cookie:x}"


def _addresses(link: LinkView) -> tuple[str, str]:
    """Return the addresses that both sides of a v1 link announced."""
    return link.address(Direction.TO_SERVER), link.address(Direction.TO_CLIENT)
