"""A run written by hand: handshake, traffic, a cut in its middle, reconnect, replay."""

from collections import Counter
from typing import Any

import pytest

from toolkit.checks.history import History

A_ADDR, B_ADDR = "v2:10.0.0.1:6800/11", "v2:10.0.0.2:6800/12"
HANDSHAKE = (
    ("a", "BANNER", {"supported": 1, "required": 1}),
    ("b", "BANNER", {"supported": 1, "required": 1}),
    ("a", "HELLO", {"entity_type": "osd"}),
    ("b", "HELLO", {"entity_type": "osd"}),
    ("a", "AUTH_REQUEST", {"method": 2, "preferred_modes": [1]}),
    ("b", "AUTH_DONE", {"global_id": 7, "con_mode": 1}),
    ("b", "AUTH_SIGNATURE", {}),
    ("a", "AUTH_SIGNATURE", {}),
)


class Run:
    """Two nodes, the connector a and the acceptor b, and the wire between them."""

    def __init__(self) -> None:
        self.history = History()
        self.now_s = 0.0
        self.link = 0
        self.frames: Counter[tuple[str, int]] = Counter()

    def add_record(self, node: str, kind: str, /, **fields: Any) -> None:
        self.history.append(self.now_s, node, kind, **fields)

    def dial(self) -> None:
        self.link += 1
        self.add_record("a", "link", link=f"a/{self.link}", action="dial", peer=B_ADDR, session=1)
        self.add_record("b", "link", link=f"b/{self.link}", action="accept", peer=A_ADDR, session=None)

    def frame(self, sender: str, tag: str, *, lost: bool = False, **fields: Any) -> None:
        index = self.frames[sender, self.link]
        self.frames[sender, self.link] += 1
        receiver = "b" if sender == "a" else "a"
        for node, direction in ((sender, "tx"), (receiver, "rx")):
            if direction == "rx" and lost:
                continue
            self.now_s += 0.0005
            self.add_record(
                node,
                "frame",
                link=f"{node}/{self.link}",
                session=1,
                direction=direction,
                tag=tag,
                index=index,
                offset=100 * index,
                length=100,
                fields=fields,
            )

    def message(self, sender: str, seq: int, *, lost: bool = False) -> None:
        self.frame(sender, "MESSAGE", lost=lost, name="ping", type=2, seq=seq, tid=seq)

    def state(self, node: str, state: str, why: str = "", **numbers: int) -> None:
        names = ("connect_seq", "in_seq", "out_seq", "acked_seq", "sent", "queued")
        values = {
            **dict.fromkeys(names, 0),
            "global_seq": 1,
            "peer_global_seq": 1,
            "client_cookie": 0xC0,
            "server_cookie": 0x5E,
            **numbers,
        }
        peer = "b" if node == "a" else "a"
        self.add_record(
            node, "state", session=1, peer=peer, policy="lossless_peer", state=state, why=why, **values
        )

    def event(self, node: str, event: str, detail: str = "") -> None:
        self.add_record(node, "event", session=1, peer="b" if node == "a" else "a", event=event, detail=detail)

    def ready(self, first: str, answer: str, attempts: int = 0, in_seq: int = 0, **fields: Any) -> None:
        """A handshake up to READY on both sides; b has the messages up to ``in_seq`` from links before."""
        for sender, tag, shown in HANDSHAKE:
            self.frame(sender, tag, **shown)
        nothing_yet = {"msg_seq": 0} if "msg_seq" in fields else {}
        self.frame("a", first, global_seq=self.link, **fields | nothing_yet)
        verdict, why = ("REUSE", "the session goes on") if attempts else ("OPEN", "no session with this peer")
        self.add_record(
            "b", "decision", link=f"b/{self.link}", session=1 if attempts else None, verdict=verdict, why=why
        )
        self.event("b", "accept")
        self.frame("b", answer, **fields)
        for node, event in (("b", "accept"), ("a", "connect")):
            self.state(
                node,
                "READY",
                event,
                connect_seq=attempts if node == "a" else 0,
                global_seq=self.link if node == "a" else 1,
                in_seq=in_seq if node == "b" else 0,
                out_seq=in_seq if node == "a" else 0,
                acked_seq=in_seq if node == "a" else 0,
                queued=20 - in_seq if node == "a" and in_seq else 0,
            )
        self.event("a", "connect")


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def reconnect(run: Run) -> History:
    """20 messages from a to b; the link breaks at the 13th, and 13 to 20 are sent again."""
    for node in ("a", "b"):
        run.add_record(node, "process", action="start", incarnation=1, addrs=A_ADDR if node == "a" else B_ADDR)
    run.add_record("scenario", "step", verb="connect", args="a, b")
    run.add_record("scenario", "step", verb="send", args="a, b, count=20")
    run.state(
        "a",
        "CONNECTING",
        "the application connects",
        client_cookie=0,
        server_cookie=0,
        global_seq=0,
        peer_global_seq=0,
    )
    run.dial()
    run.ready("CLIENT_IDENT", "SERVER_IDENT", client_cookie=0xC0)
    for tid in range(1, 21):
        body = {"session": 1, "peer": "b", "tid": tid, "digest": f"{tid:04x}", "size": 100}
        run.add_record("a", "send", **body)
    for seq in range(1, 21):
        run.message("a", seq, lost=seq > 12)
        if seq <= 12:
            body = {"session": 1, "peer": "a", "tid": seq, "digest": f"{seq:04x}", "size": 100, "seq": seq}
            run.add_record("b", "deliver", **body)
    run.frame("b", "ACK", seq=12, lost=True)
    at = {"sender": "a", "tag": "MESSAGE", "nth": 13, "byte": 40}
    run.add_record("network", "cut", a="a", b="b", at=at, detail="at MESSAGE 13 of a")
    for node in ("a", "b"):
        detail = "socket error in READY: connection reset by peer"
        run.add_record(node, "fault", session=1, link=f"{node}/1", reason="SOCKET", detail=detail)
        used = {"tx_nonces": 0, "rx_nonces": 0, "handshake_bytes": 0, "data_bytes": 0}
        limits = {"handshake_limit_bytes": 1, "data_limit_bytes": 1}
        run.add_record(node, "usage", link=f"{node}/1", **used, **limits)
        run.add_record(node, "link", link=f"{node}/1", action="close", peer="", session=1)
        idle = node == "b"
        numbers = {"in_seq": 12} if idle else {"connect_seq": 1, "queued": 20}
        then = "nothing to send" if idle else "dialling again"
        run.state(node, "STANDBY" if idle else "CONNECTING", f"{detail}; {then}", **numbers)
    run.now_s += 0.2
    run.dial()
    run.ready("SESSION_RECONNECT", "SESSION_RECONNECT_OK", attempts=1, in_seq=12, msg_seq=12)
    for seq in range(13, 21):
        run.message("a", seq)
        body = {"session": 1, "peer": "a", "tid": seq, "digest": f"{seq:04x}", "size": 100, "seq": seq}
        run.add_record("b", "deliver", **body)
    run.frame("b", "ACK", seq=20)
    for node in ("a", "b"):
        run.add_record(node, "end", registry=1, dispatch_bytes=0, links=1, queued=0, sent=0)
    return run.history
