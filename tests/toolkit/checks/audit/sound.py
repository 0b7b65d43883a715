"""Sound conversations on both protocols, frame by frame, and how to damage them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.toolkit.checks.conftest import Story
from toolkit.checks.audit.table import Audit, audit
from toolkit.checks.index import Index

HERE, THERE = "v2:10.0.0.1:6800/11", "v2:10.0.0.2:6801/12"
FEATURES = 0x3F07FFFFFFFDFFFF
ADDR2 = 1 << 59


@dataclass(slots=True)
class Step:
    """A frame that one end sends and the other receives."""

    link: int
    sender: str
    tag: str
    fields: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """Fields of the record that only captures have."""


Steps = list[Step]
Damage = Callable[[Steps], None]


def judged(steps: Steps) -> Audit:
    """The audit of a conversation in which a has dialled every link; one is closed before the next begins."""
    story = Story()
    begun = 0
    for step in steps:
        while begun < step.link:
            if begun:
                _close(story, begun)
            begun += 1
            story.wire(begun)
        arrival = story.pass_frame(step.sender, step.tag, number=step.link, **step.fields)
        story.history[arrival - 1].fields.update(step.extra)
    _close(story, begun)
    return audit(Index(story.history))


def _close(story: Story, number: int) -> None:
    story.link("a", f"a/{number}", "close", "b")
    story.link("b", f"b/{number}", "close", "a")


def broken(steps: Steps) -> set[str]:
    """The rules that a conversation breaks."""
    return {each.rule.id for each in judged(steps).broken}


# ---- damages


def place(steps: Steps, link: int, sender: str, tag: str, nth: int = 0) -> int:
    """Return the position of a frame."""
    found = [at for at, step in enumerate(steps) if (step.link, step.sender, step.tag) == (link, sender, tag)]
    return found[nth]


def has(link: int, sender: str, tag: str, nth: int = 0, /, **fields: Any) -> Damage:
    """A frame has other fields."""

    def change(steps: Steps) -> None:
        steps[place(steps, link, sender, tag, nth)].fields.update(fields)

    return change


def bears(link: int, sender: str, tag: str, nth: int = 0, /, **extra: Any) -> Damage:
    """The record of a frame has other fields."""

    def change(steps: Steps) -> None:
        steps[place(steps, link, sender, tag, nth)].extra.update(extra)

    return change


def becomes(link: int, sender: str, before: str, after: str, **fields: Any) -> Damage:
    """A frame has another tag."""

    def change(steps: Steps) -> None:
        at = place(steps, link, sender, before)
        steps[at] = Step(link, sender, after, fields)

    return change


def repeats(link: int, sender: str, tag: str, nth: int = 0) -> Damage:
    """A frame is sent twice."""

    def change(steps: Steps) -> None:
        at = place(steps, link, sender, tag, nth)
        steps.insert(at, steps[at])

    return change


def lacks(link: int, sender: str, tag: str, nth: int = 0) -> Damage:
    """A frame is not sent."""

    def change(steps: Steps) -> None:
        del steps[place(steps, link, sender, tag, nth)]

    return change


# ---- conversations


def v2() -> Steps:
    """Refusals, a session, its reconnects, its reset, and a lossy one."""
    return [
        *_v2_authenticated(1, refused=True),
        Step(1, "a", "CLIENT_IDENT", {**_client(1), "features_supported": ADDR2}),
        Step(1, "b", "IDENT_MISSING_FEATURES", {"features": 4}),
        *_v2_authenticated(2),
        Step(2, "a", "CLIENT_IDENT", _client(2)),
        Step(2, "b", "SERVER_IDENT", _server(1)),
        *_exchange(2, "MESSAGE"),
        *_v2_authenticated(3),
        Step(3, "a", "SESSION_RECONNECT", _resume(3, 1, 1)),
        Step(3, "b", "SESSION_RETRY", {"connect_seq": 4}),
        Step(3, "a", "SESSION_RECONNECT", _resume(3, 5, 1)),
        Step(3, "b", "SESSION_RETRY_GLOBAL", {"global_seq": 7}),
        Step(3, "a", "SESSION_RECONNECT", _resume(8, 5, 1)),
        Step(3, "b", "SESSION_RECONNECT_OK", {"msg_seq": 2}),
        Step(3, "a", "MESSAGE", {"seq": 3, "ack_seq": 1}, {"compressed": True}),
        Step(3, "b", "MESSAGE", {"seq": 2, "ack_seq": 3}, {"preamble": ""}),
        *_v2_authenticated(4),
        Step(4, "a", "SESSION_RECONNECT", _resume(9, 6, 2)),
        Step(4, "b", "SESSION_RESET", {"full": True}),
        Step(4, "a", "CLIENT_IDENT", {**_client(9), "client_cookie": 0xC1}),
        Step(4, "b", "SERVER_IDENT", {**_server(2), "server_cookie": 0x5F}),
        *_v2_authenticated(5, lower=True),
        Step(5, "a", "CLIENT_IDENT", {**_client(10), "flags": 1, "client_cookie": 0}),
        Step(5, "b", "WAIT"),
        *_v2_authenticated(6),
        Step(6, "a", "CLIENT_IDENT", {**_client(11), "flags": 1, "client_cookie": 0}),
        Step(6, "b", "SERVER_IDENT", {**_server(3), "flags": 1, "server_cookie": 0}),
        Step(6, "b", "MESSAGE", {"seq": 1, "ack_seq": 0}),
        Step(6, "a", "MESSAGE", {"seq": 1, "ack_seq": 1}),
    ]


def _v2_authenticated(link: int, *, refused: bool = False, lower: bool = False) -> Steps:
    """The beginning of a link, up to the agreement to compress."""
    banner = {"supported": 3, "required": 0}
    there = "v2:10.0.0.1:6800/10" if lower else THERE
    steps = [
        Step(link, "a", "BANNER", dict(banner)),
        Step(link, "b", "BANNER", dict(banner)),
        Step(link, "a", "HELLO", {"entity_type": "osd", "peer_addr": there}),
        Step(link, "b", "HELLO", {"entity_type": "osd", "peer_addr": f"v2:10.0.0.1:{40000 + link}/0"}),
    ]
    if refused:
        steps += [
            Step(link, "a", "AUTH_REQUEST", {"method": 4, "preferred_modes": [2, 1]}),
            Step(link, "b", "AUTH_BAD_METHOD", {"method": 4, "result": -95, "allowed_methods": [2]}),
        ]
    return [
        *steps,
        Step(link, "a", "AUTH_REQUEST", {"method": 2, "preferred_modes": [1]}),
        Step(link, "b", "AUTH_DONE", {"global_id": 1, "con_mode": 1}),
        Step(link, "a", "AUTH_SIGNATURE"),
        Step(link, "b", "AUTH_SIGNATURE"),
        Step(link, "a", "COMPRESSION_REQUEST", {"is_compress": True, "methods": [1, 4]}),
        Step(link, "b", "COMPRESSION_DONE", {"is_compress": True, "method": 4}),
    ]


def _exchange(link: int, tag: str) -> Steps:
    """Two messages and one, acknowledged; a keepalive each way."""
    acks = tag == "MESSAGE"
    stamps: list[dict[str, Any]] = [{"seconds": 7, "nanoseconds": number} for number in range(2)]
    return [
        Step(link, "a", tag, {"seq": 1, **({"ack_seq": 0} if acks else {})}, {"signed": True}),
        Step(link, "b", "ACK", {"seq": 1}),
        Step(link, "a", tag, {"seq": 2, **({"ack_seq": 0} if acks else {})}, {"signed": True}),
        Step(link, "b", tag, {"seq": 1, **({"ack_seq": 2} if acks else {})}),
        *([] if acks else [Step(link, "b", "ACK", {"seq": 2})]),
        Step(link, "a", "KEEPALIVE2", stamps[0]),
        Step(link, "a", "KEEPALIVE2", stamps[1]),
        Step(link, "b", "KEEPALIVE2_ACK", dict(stamps[0])),
        Step(link, "b", "KEEPALIVE2_ACK", dict(stamps[1])),
        Step(link, "a", "ACK", {"seq": 1}),
    ]


def _client(global_seq: int) -> dict[str, Any]:
    target = "v2:10.0.0.1:6800/10" if global_seq == 10 else THERE
    features = {"features_supported": FEATURES, "features_required": ADDR2}
    return {
        "addrs": f"[{HERE},v1:10.0.0.1:6802/11]",
        "target_addr": target,
        "global_seq": global_seq,
        **features,
        "flags": 0,
        "client_cookie": 0xC0,
    }


def _server(global_seq: int) -> dict[str, Any]:
    features = {"features_supported": FEATURES, "features_required": ADDR2}
    addrs = f"[{THERE},v1:10.0.0.2:6803/12]"
    return {"addrs": addrs, "global_seq": global_seq, **features, "flags": 0, "server_cookie": 0x5E}


def _resume(global_seq: int, connect_seq: int, msg_seq: int) -> dict[str, Any]:
    cookies = {"client_cookie": 0xC0, "server_cookie": 0x5E}
    seqs = {"global_seq": global_seq, "connect_seq": connect_seq, "msg_seq": msg_seq}
    return {"addrs": f"[{HERE},v1:10.0.0.1:6802/11]", **cookies, **seqs}


def v1() -> Steps:
    """A session, its reconnect with all kinds of retries, and its reset."""
    return [
        *_v1_begin(1),
        Step(1, "a", "CONNECT", _connect(1, 0)),
        Step(1, "b", "CONNECT_REPLY", _reply("CHALLENGE_AUTHORIZER")),
        Step(1, "a", "CONNECT", _connect(1, 0)),
        *_v1_open(1, 1, 0, 0),
        *_exchange(1, "MSG"),
        *_v1_begin(2),
        Step(2, "a", "CONNECT", _connect(2, 1)),
        Step(2, "b", "CONNECT_REPLY", _reply("RETRY_SESSION", connect_seq=2)),
        Step(2, "a", "CONNECT", _connect(2, 2)),
        Step(2, "b", "CONNECT_REPLY", _reply("RETRY_GLOBAL", global_seq=5)),
        Step(2, "a", "CONNECT", _connect(6, 2)),
        *_v1_open(2, 3, 2, 1),
        Step(2, "a", "MSG", {"seq": 3}),
        *_v1_begin(3),
        Step(3, "a", "CONNECT", _connect(7, 3)),
        Step(3, "b", "CONNECT_REPLY", _reply("RESETSESSION")),
        Step(3, "a", "CONNECT", _connect(7, 0)),
        *_v1_open(3, 1, 0, 0),
        *_v1_begin(4, there="v1:10.0.0.1:6802/10"),
        Step(4, "a", "CONNECT", _connect(8, 1)),
        Step(4, "b", "CONNECT_REPLY", _reply("WAIT")),
        *_v1_begin(5),
        Step(5, "a", "CONNECT", _connect(9, 1)),
        Step(5, "b", "CONNECT_REPLY", _reply("BADPROTOVER") | {"protocol_version": 13}),
    ]


def _v1_begin(link: int, there: str = "v1:10.0.0.2:6803/12") -> Steps:
    return [
        Step(link, "a", "BANNER"),
        Step(link, "b", "BANNER"),
        Step(link, "b", "IDENTIFY", {"server_addr": there, "client_addr": f"v1:10.0.0.1:{40000 + link}/0"}),
        Step(link, "a", "IDENTIFY", {"client_addr": "v1:10.0.0.1:6802/11"}),
    ]


def _connect(global_seq: int, connect_seq: int) -> dict[str, Any]:
    seqs = {"global_seq": global_seq, "connect_seq": connect_seq, "protocol_version": 10}
    return {"features": FEATURES, "host_type": "osd", **seqs, "flags": 0}


def _reply(tag: str, *, global_seq: int = 0, connect_seq: int = 0) -> dict[str, Any]:
    seqs = {"global_seq": global_seq, "connect_seq": connect_seq, "protocol_version": 10}
    return {"tag": tag, "features": FEATURES, **seqs, "flags": 0}


def _v1_open(link: int, connect_seq: int, server_in_seq: int, client_in_seq: int) -> Steps:
    return [
        Step(link, "b", "CONNECT_REPLY", _reply("SEQ", global_seq=link, connect_seq=connect_seq)),
        Step(link, "b", "SEQ", {"seq": server_in_seq}),
        Step(link, "a", "SEQ", {"seq": client_in_seq}),
    ]
