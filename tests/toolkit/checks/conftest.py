"""Hand-made histories of two nodes, record by record."""

from typing import Any

import pytest

from toolkit.checks.history import History
from toolkit.checks.invariants import find
from toolkit.checks.result import CheckResult

COOKIES = {"client_cookie": 0xC0, "server_cookie": 0x5E}
NO_COOKIES = {"client_cookie": 0, "server_cookie": 0}


class Story:
    """Tells a history; every line is a millisecond later than the one before."""

    def __init__(self) -> None:
        self.history = History()
        self.policies: dict[tuple[str, int], str] = {}
        self.cookies: dict[tuple[str, int], dict[str, int]] = {}
        self.frames: dict[int, dict[str, list[int]]] = {}
        """Of each wire and sender, number and offset of the next frame."""

    def add_record(self, node: str, kind: str, /, **fields: Any) -> int:
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
        return self.add_record(node, "state", session=session, peer=peer or other(node), state=state, **values)

    def event(self, node: str, event: str, session: int = 1, *, peer: str = "") -> int:
        return self.add_record(node, "event", session=session, peer=peer or other(node), event=event, detail="")

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
        """Record a session that becomes READY, and its event."""
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
            self.add_record(node, "send", session=session, peer=peer or other(node), tid=tid, **body)
        return len(self.history) - 1

    def deliver(
        self, node: str, *tids: int, session: int = 1, seq: int | None = None, peer: str = "", **fields: Any
    ) -> int:
        """Deliver messages whose seq is their tid unless ``seq`` gives that of the first one."""
        for offset, tid in enumerate(tids):
            body = {"digest": f"{tid:04x}", "size": 100, **fields}
            number = tid if seq is None else seq + offset
            self.add_record(
                node, "deliver", session=session, peer=peer or other(node), tid=tid, seq=number, **body
            )
        return len(self.history) - 1

    def mark_down(self, node: str, session: int = 1) -> int:
        at = self.add_record(node, "mark_down", session=session, peer=other(node))
        self.state(node, session, "CLOSED", why="marked down")
        return at

    def reset(self, node: str, session: int = 1, why: str = "peer closed the connection") -> int:
        """A session is ended by its peer."""
        self.state(node, session, "CLOSED", why=why)
        return self.event(node, "reset", session)

    def process(self, node: str, action: str, incarnation: int = 1, **fields: Any) -> int:
        return self.add_record(node, "process", action=action, incarnation=incarnation, **fields)

    def frame(self, node: str, link: str, direction: str, tag: str, index: int, /, **fields: Any) -> int:
        place = {"index": index, "offset": 100 * index, "length": 100}
        session = fields.pop("session", 1)
        return self.add_record(
            node, "frame", link=link, session=session, direction=direction, tag=tag, **place, fields=fields
        )

    def link(self, node: str, link: str, action: str, peer: str, session: int | None = 1) -> int:
        return self.add_record(node, "link", link=link, action=action, peer=peer, session=session)

    # ---- frames on a wire, recorded by both ends

    def wire(self, number: int = 1, *, session: int = 1) -> None:
        """a has dialled b: link a/NUMBER is b/NUMBER."""
        self.link("a", f"a/{number}", "dial", "b", session)
        self.link("b", f"b/{number}", "accept", "a", None)
        self.frames[number] = {"a": [0, 0], "b": [0, 0]}

    def send_frame(self, sender: str, tag: str, /, *, number: int = 1, length: int = 160, **fields: Any) -> int:
        """A frame leaves its sender; its place in the history."""
        return self._frame(sender, "tx", tag, number, length, sender, fields)

    def pass_frame(self, sender: str, tag: str, /, *, number: int = 1, length: int = 160, **fields: Any) -> int:
        """A frame leaves its sender and arrives; the place of its arrival."""
        place = list(self.frames[number][sender])
        self._frame(sender, "tx", tag, number, length, sender, fields)
        self.frames[number][sender] = place
        return self._frame(other(sender), "rx", tag, number, length, sender, fields)

    def take_frame(self, node: str, tag: str, /, *, number: int = 1, length: int = 160, **fields: Any) -> int:
        """A frame arrives whose sender has no record of it."""
        return self._frame(node, "rx", tag, number, length, other(node), fields)

    def _frame(
        self, node: str, direction: str, tag: str, number: int, length: int, sender: str, fields: dict[str, Any]
    ) -> int:
        index, offset = self.frames[number][sender]
        self.frames[number][sender] = [index + 1, offset + length]
        place = {"index": index, "offset": offset, "length": length}
        link = f"{node}/{number}"
        return self.add_record(
            node, "frame", link=link, session=1, direction=direction, tag=tag, **place, fields=fields
        )

    def greet(self, number: int = 1, *, con_mode: int = 2) -> None:
        """The beginning of a link on v2, up to AUTH_DONE."""
        self.wire(number)
        for tag in ("BANNER", "HELLO"):
            self.pass_frame("a", tag, number=number, port=number)
            self.pass_frame("b", tag, number=number, port=number)
        self.pass_frame("a", "AUTH_REQUEST", number=number)
        self.pass_frame("b", "AUTH_DONE", number=number, con_mode=con_mode)

    def auth(self, node: str, number: int = 1, /, **fields: Any) -> int:
        """The record of ``node`` about its peer's authentication, secure by default."""
        ab, ba = f"ab{number}", f"ba{number}"
        values = {
            "session": None,
            "method": "cephx",
            "mode": "secure",
            "modes": "secure crc",
            "cipher": "aes",
            "global_id": 1,
            "ticket_left_s": 3600.0,
            "key": f"k{number}",
            "revision": 1,
            **({"tx_nonce": ab, "rx_nonce": ba} if node == "a" else {"tx_nonce": ba, "rx_nonce": ab}),
            **fields,
        }
        return self.add_record(node, "auth", link=f"{node}/{number}", **values)

    def usage(self, node: str, number: int = 1, /, **fields: int) -> int:
        """Return what a link of ``node`` has used."""
        values = {
            **dict.fromkeys(("tx_nonces", "rx_nonces", "handshake_bytes", "data_bytes"), 0),
            "handshake_limit_bytes": 1000,
            "data_limit_bytes": 10_000,
            **fields,
        }
        return self.add_record(node, "usage", link=f"{node}/{number}", **values)

    def authenticate(self, number: int = 1, **fields: Any) -> None:
        """Both sides' auth records, and the signatures."""
        self.greet(number)
        self.auth("b", number, **fields)
        self.auth("a", number, **fields)
        self.sign(number)

    def sign(self, number: int = 1) -> None:
        """Both sides' signatures."""
        for node in ("a", "b"):
            self.pass_frame(node, "AUTH_SIGNATURE", number=number, length=96)

    def sign_and_go_on(self) -> None:
        """The signatures hold: what both sides agreed on counts."""
        self.sign()
        self.pass_frame("a", "CLIENT_IDENT")

    def fault(
        self, node: str, number: int = 1, reason: str = "EOF", detail: str = "", session: int | None = 1
    ) -> int:
        return self.add_record(
            node, "fault", link=f"{node}/{number}", session=session, reason=reason, detail=detail
        )

    def mangle(self, sender: str, what: str, tag: str, index: int, **at: Any) -> int:
        place = {"sender": sender, "tag": tag, "nth": 1, "index": index, **at}
        return self.add_record("network", "mangle", a="a", b="b", at=place, what=what)

    def rest(self, *nodes: str, **fields: int) -> int:
        """The nodes come to rest."""
        values = {"registry": 1, "dispatch_bytes": 0, "links": 1, "queued": 0, "sent": 0, **fields}
        for node in nodes or ("a", "b"):
            self.add_record(node, "end", **values)
        return len(self.history) - 1

    def judge(self, invariant: str) -> CheckResult:
        return find(invariant)(self.history)

    def texts(self, invariant: str) -> list[str]:
        return [violation.text for violation in self.judge(invariant).violations]


def other(node: str) -> str:
    return {"a": "b", "b": "a"}.get(node, "a")


@pytest.fixture
def story() -> Story:
    return Story()
