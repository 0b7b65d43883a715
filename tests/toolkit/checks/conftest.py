"""Hand-made histories: small stories of two nodes, told record by record."""

from typing import Any

import pytest

from toolkit.checks.history import History
from toolkit.checks.invariants import INVARIANTS
from toolkit.checks.result import CheckResult

COOKIES = {"client_cookie": 0xC0, "server_cookie": 0x5E}
NO_COOKIES = {"client_cookie": 0, "server_cookie": 0}


class Story:
    """Tells a history; every line is a millisecond later than the one before."""

    def __init__(self) -> None:
        self.history = History()
        self.policies: dict[tuple[str, int], str] = {}
        self.cookies: dict[tuple[str, int], dict[str, int]] = {}

    def tell(self, node: str, kind: str, /, **fields: Any) -> int:
        self.history.append(len(self.history) / 1000, node, kind, **fields)
        return len(self.history) - 1

    def state(self, node: str, session: int = 1, state: str = "READY", *, peer: str = "", **fields: Any) -> int:
        values = {
            "connect_seq": 0,
            "global_seq": 1,
            "peer_global_seq": 1,
            **self.cookies.get((node, session), COOKIES),
            "in_seq": 0,
            "out_seq": 0,
            "acked_seq": 0,
            "sent": 0,
            "queued": 0,
            "why": "",
            "policy": self.policies.get((node, session), "lossless_peer"),
            **fields,
        }
        return self.tell(node, "state", session=session, peer=peer or other(node), state=state, **values)

    def event(self, node: str, event: str, session: int = 1, *, peer: str = "") -> int:
        return self.tell(node, "event", session=session, peer=peer or other(node), event=event, detail="")

    def open(
        self,
        node: str,
        policy: str,
        *,
        session: int = 1,
        event: str = "",
        peer: str = "",
        cookies: dict[str, int] | None = None,
        **fields: Any,
    ) -> None:
        """A session becomes READY and the application hears of it."""
        lossy = "lossy" in policy or "stateless" in policy
        self.policies[node, session] = policy
        self.cookies[node, session] = cookies or (NO_COOKIES if lossy else COOKIES)
        self.state(node, session, peer=peer, **fields)
        self.event(node, event or ("accept" if "server" in policy else "connect"), session, peer=peer)

    def pair(self, client: str = "lossless_client", server: str = "stateful_server") -> None:
        """a and b open session 1 with each other; a has dialled."""
        self.open("b", server, event="accept")
        self.open("a", client, event="connect")

    def send(self, node: str, *tids: int, session: int = 1, peer: str = "", **fields: Any) -> int:
        for tid in tids:
            body = {"digest": f"{tid:04x}", "size": 100, **fields}
            self.tell(node, "send", session=session, peer=peer or other(node), tid=tid, **body)
        return len(self.history) - 1

    def deliver(
        self, node: str, *tids: int, session: int = 1, seq: int | None = None, peer: str = "", **fields: Any
    ) -> int:
        """Deliver messages whose seq is their tid unless ``seq`` says what the first one has."""
        for offset, tid in enumerate(tids):
            body = {"digest": f"{tid:04x}", "size": 100, **fields}
            number = tid if seq is None else seq + offset
            self.tell(node, "deliver", session=session, peer=peer or other(node), tid=tid, seq=number, **body)
        return len(self.history) - 1

    def mark_down(self, node: str, session: int = 1) -> int:
        at = self.tell(node, "mark_down", session=session, peer=other(node))
        self.state(node, session, "CLOSED", why="marked down")
        return at

    def reset(self, node: str, session: int = 1, why: str = "peer closed the connection") -> int:
        """A session is ended by its peer."""
        self.state(node, session, "CLOSED", why=why)
        return self.event(node, "reset", session)

    def process(self, node: str, action: str, incarnation: int = 1, **fields: Any) -> int:
        return self.tell(node, "process", action=action, incarnation=incarnation, **fields)

    def frame(self, node: str, link: str, direction: str, tag: str, index: int, /, **fields: Any) -> int:
        place = {"index": index, "offset": 100 * index, "length": 100}
        session = fields.pop("session", 1)
        return self.tell(
            node, "frame", link=link, session=session, direction=direction, tag=tag, **place, fields=fields
        )

    def link(self, node: str, link: str, action: str, peer: str, session: int | None = 1) -> int:
        return self.tell(node, "link", link=link, action=action, peer=peer, session=session)

    def rest(self, *nodes: str, **fields: int) -> int:
        """The nodes come to rest."""
        values = {"registry": 1, "dispatch_bytes": 0, "links": 1, "queued": 0, "sent": 0, **fields}
        for node in nodes or ("a", "b"):
            self.tell(node, "end", **values)
        return len(self.history) - 1

    def judge(self, invariant: str) -> CheckResult:
        return INVARIANTS[invariant](self.history)

    def texts(self, invariant: str) -> list[str]:
        return [violation.text for violation in self.judge(invariant).violations]


def other(node: str) -> str:
    return {"a": "b", "b": "a"}.get(node, "a")


@pytest.fixture
def story() -> Story:
    return Story()
