"""SE: keys and nonces, where encryption starts, and what an observer can read."""

from typing import Any

from messenger.messages.types import MessageType
from messenger.v2.preamble import MESSAGE_TAG, build_preamble
from messenger.v2.wire import MESSAGE_HEADER, KeepAlive2, KeepAlive2Ack, Tag
from toolkit.faults.mangle import Change, Drop, Duplicate, Flip, Insert, Join, Mangle, Truncate
from toolkit.faults.tap import Breakpoint
from toolkit.lab.lab import Lab
from toolkit.lab.ways import SECURE_WAYS, ways
from toolkit.node.raw.v2 import RawMessage
from toolkit.scenarios.secure_mode import SE
from toolkit.scenarios.secure_mode.secure_peers import REVISIONS, peers, send_parts

_WITHOUT_SHARDS = ways("v2-secure", "v2-secure-aes256k")
_COMPRESSED = {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1, "ms_compress_secure": True}


def _by_reconnects(lab: Lab) -> None:
    for _ in range(4):
        lab.exchange(count=3)
        lab.cut("a", "b")
    lab.exchange(count=3)


def _by_requeues(lab: Lab) -> None:
    """Cut links so that messages sealed under one key are sealed again under the next."""
    for nth in (2, 5, 9):
        lab.cut_at("a", "b", Breakpoint("a", "MESSAGE", nth, 50))
    lab.send("a", "b", 20)
    lab.send("b", "a", 20)
    lab.expect_delivered("a", "b", 20)
    lab.expect_delivered("b", "a", 20)


def _by_races(lab: Lab) -> None:
    """Cut the link and have both sides dial, several times."""
    for _ in range(3):
        lab.cut("a", "b")
        lab.send("a", "b", 2)
        lab.send("b", "a", 2)
        lab.wait(1)
    lab.exchange()


def _by_tampering(lab: Lab) -> None:
    """Flip, cut, extend, drop and duplicate random frames."""
    rng = lab.rng
    for _ in range(12):
        changes: tuple[Change, ...] = (
            Flip(rng.randrange(60), 1 << rng.randrange(8)),
            Truncate(rng.randrange(96)),
            Insert(b"x", rng.randrange(96)),
            Drop(),
            Duplicate(),
        )
        sender, nth = rng.choice(("a", "b")), rng.randrange(1, 30)
        lab.mangle("a", "b", Mangle(sender, "MESSAGE", nth, change=rng.choice(changes)))
    lab.send("a", "b", 40)
    lab.send("b", "a", 40)
    lab.wait(2)
    lab.exchange(count=40)


_SCHEDULES = {
    "reconnects": _by_reconnects,
    "requeues": _by_requeues,
    "races": _by_races,
    "tampering": _by_tampering,
}
_FRAMES: dict[str, dict[str, Any]] = {
    "plain": {"features": 3},
    "compressed": {"features": 3, **_COMPRESSED},
    "msgr 2.0": {"features": 0},
}


@SE.scenario(
    "SE-08",
    "nonce_unique_property",
    ways=SECURE_WAYS,
    cases={f"{name} {frames}": {"schedule": name, "frames": frames} for name in _SCHEDULES for frames in _FRAMES},
)
def nonce_unique_property(lab: Lab, schedule: str, frames: str) -> None:
    """No nonce is used twice under one key, whatever happens to links.

    Links are cut and replaced, in the data phase, by both sides at once and by tampering, with and without
    compression. Both ends of a link record the same key and matching nonces, no two links have a key in common,
    each operation takes a new nonce, and no two sealed messages begin with the same bytes.
    """
    tapes = [lab.tape(node, peer) for node, peer in (("a", "b"), ("b", "a"))]
    peers(lab, **_FRAMES[frames])
    _SCHEDULES[schedule](lab)
    lab.settle()
    # Preambles of equal messages are equal: with the same nonce their ciphertexts would be equal as well.
    heads = [frame.raw[:32] for tape in tapes for frame in tape.frames if frame.tag == "MESSAGE"]
    lab.require(len(heads) > 20 and len(set(heads)) == len(heads), "two frames begin with the same ciphertext")
    ends = {node: [r.fields for r in lab.records(node, "auth")] for node in ("a", "b")}
    keys = {node: [end["key"] for end in logged] for node, logged in ends.items()}
    lab.require(len(keys["a"]) > 1, "there were several links")
    lab.require(all(len(set(logged)) == len(logged) for logged in keys.values()), f"a key came twice: {keys}")
    common = set(keys["a"]) & set(keys["b"])
    nonces = {(end["key"], end["tx_nonce"]) for logged in ends.values() for end in logged if end["key"] in common}
    lab.require(len(nonces) == 2 * len(common), "each direction of each link has nonces of its own")


@SE.scenario("SE-09", "nonce_exhaustion", ways=_WITHOUT_SHARDS, cases=REVISIONS)
def nonce_exhaustion(lab: Lab, features: int) -> None:
    """A link that runs out of nonces breaks, and the next one has a new key.

    The nonce counters of both ends are set to a few steps before they return to their first value: a counter of 32
    bits with msgr 2.0, of 64 with msgr 2.1. The sender breaks the link instead of using that value again. All
    messages arrive, and the new link starts with a new key and fresh counters.
    """
    peers(lab, features)
    lab.exchange()
    lab.expect_acked("a")
    lab.expect_acked("b")
    for node, peer in ("a", "b"), ("b", "a"):
        lab.use_up_nonces(node, peer, left=7)
    send_parts(lab, 10)
    lab.expect_delivered("a", "b", 15)
    lab.exchange(count=10)
    lab.settle()
    lab.require(lab.faults("a") == ["NONCE_EXHAUSTED"], f"why the link was given up: {lab.faults('a')}")
    keys = [record["key"] for record in lab.records("a", "auth")]
    lab.require(len(keys) == len(set(keys)) == 2, "there are two links, with a key each")


@SE.scenario(
    "SE-10",
    "inline_boundary",
    priority=2,
    ways=SECURE_WAYS,
    cases={
        f"{size} bytes {name}": {"size": size, **case}
        for name, case in REVISIONS.items()
        for size in (0, 1, 47, 48, 49, 63, 64, 65)
    },
)
def inline_boundary(lab: Lab, size: int, features: int) -> None:
    """Segments around the block size and the inline part arrive unchanged.

    The first segment of a control frame, and the front, middle and data of messages have lengths around 48 and 64
    bytes, where sealing takes one operation more, or are nearly empty. Frame lengths on the wire are those of the
    protocol, and contents arrive unchanged.
    """
    b = lab.raw("b")
    lab.node("a", "osd.1", "lossless_peer", msgr2_features=features)
    lab.start()
    lab.dial("a", "b")
    link = b.accept("a", features=features).handshake()
    payload = KeepAlive2(size, 7).encode().ljust(size, b"\x5a")
    link.write(link.writer.control(Tag.KEEPALIVE2, payload))
    lab.require(link.expect(KeepAlive2Ack) == KeepAlive2Ack(size, 7), "the stamp comes back")
    part = bytes(range(size))
    link.write(link.message(1, front=part, middle=part, data=part))
    lab.expect_delivered("b", "a", 1)
    got = lab.records("a", "deliver")[0]
    lab.require(got["size"] == 3 * size, f"{got['size']} bytes of {3 * size} were delivered")
    lab.send("a", "b", size_bytes=size, front_bytes=size, middle_bytes=size)
    message = link.skip_to(RawMessage)
    lab.require([*map(len, (message.front, message.middle, message.data))] == [size] * 3, "three segments")
    lab.require(lab.faults("a") == [], "nothing broke")
    sent = lab.records("a", "send")[0]
    lab.require(sent["size"] == 3 * size, f"{sent['size']} bytes were sent")
    lab.wait_until(lambda: bool(lab.messages("a")), "the record of the message that was written")
    wire = lab.messages("a")[0]["length"]
    blocks = 3 * (-(-size // 16) * 16)
    expected = 96 + (blocks + 32 if size else 0) if features else 32 + 48 + blocks + 32
    lab.require(wire == expected, f"{wire} bytes on the wire, {expected} are due")
    link.hang_up()


@SE.scenario("SE-11", "padding_garbage", priority=2, ways=SECURE_WAYS, cases=REVISIONS)
def padding_garbage(lab: Lab, features: int) -> None:
    """The padding of a sealed frame is ignored.

    A peer that has the key pads segments, and the rest of the inline part and the epilogue, with bytes other than
    zero. The receiver ignores the padding, as Ceph does, and delivers the message.
    """
    b = lab.raw("b")
    lab.node("a", "osd.1", "lossless_peer", msgr2_features=features)
    lab.start()
    lab.dial("a", "b")
    link = b.accept("a", features=features).handshake()
    header = MESSAGE_HEADER.pack(1, 1, MessageType.PING, 127, 1, 0, 0, 0, 3, 1, 0)
    preamble = build_preamble(MESSAGE_TAG, (len(header), 5, 0, 3))
    first, tail = header.ljust(48, b"\xa5"), b"front".ljust(16, b"\xa5") + b"dat".ljust(16, b"\xa5")
    if features:
        link.write(link.seal(preamble + first) + link.seal(tail + b"\x0e".ljust(16, b"\xa5")))
    else:
        link.write(link.seal(preamble + first + tail + b"\x00".ljust(16, b"\xa5")))
    lab.expect_delivered("b", "a", 1)
    lab.require(lab.records("a", "deliver")[0]["size"] == 8, "the padding is no part of the message")
    lab.require(lab.faults("a") == [], f"nothing broke: {lab.faults('a')}")
    link.hang_up()


_BORDERS: dict[str, dict[str, Any]] = {
    "server in one piece": {"joined": ("b", "AUTH_DONE")},
    "client in one piece": {"joined": ("a", "AUTH_SIGNATURE")},
    "byte by byte": {"trickle": 1},
    "cut behind done": {"cut": ("b", "AUTH_DONE", None)},
    "cut within signature": {"cut": ("b", "AUTH_SIGNATURE", 60)},
    "cut behind signature": {"cut": ("a", "AUTH_SIGNATURE", None)},
    "marked down at done": {"down": "AUTH_DONE READ"},
    "marked down at signature": {"down": "AUTH_SIGNATURE READ"},
}


@SE.scenario(
    "SE-13",
    "handler_swap_border",
    priority=2,
    ways=SECURE_WAYS,
    cases={
        f"{name} {revision}": {"features": case["features"], **border}
        for name, border in _BORDERS.items()
        for revision, case in REVISIONS.items()
    },
)
def handler_swap_border(
    lab: Lab,
    features: int,
    joined: tuple[str, str] | None = None,
    trickle: int = 0,
    cut: tuple[str, str, int | None] | None = None,
    down: str = "",
) -> None:
    """Encryption starts exactly after AUTH_DONE, however its bytes are split.

    The last plain and the first sealed frame arrive in one piece, or byte by byte; or the link is cut there, or
    the session marked down. Each byte is decoded with the right reader: the session opens, if necessary on the
    next link, and no frame fails authentication.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2", msgr2_features=features)
    if joined is not None:
        sender, tag = joined
        lab.mangle("a", "b", Mangle(sender, tag, change=Join()))
    if trickle:
        lab.trickle("a", "b", trickle)
    if cut is not None:
        lab.cut_at("a", "b", Breakpoint(cut[0], cut[1], 1, cut[2]))
    if down:
        lab.arm("a", down, "BLOCK")
        lab.dial("a", "b")
        lab.expect_hit("a", down)
        lab.mark_down("a", "b")
        lab.unblock("a")
        lab.wait(0.2)
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.exchange()
    lab.settle()
    reasons = {*lab.faults("a"), *lab.faults("b")}
    lab.require(reasons <= {"SOCKET", "EOF"}, f"links broke for other reasons than the cut: {reasons}")


@SE.scenario("SE-15", "plaintext_leak", priority=2, ways=SECURE_WAYS, cases=REVISIONS)
def plaintext_leak(lab: Lab, features: int) -> None:
    """No message is readable on the wire, replayed ones included.

    An observer records all bytes of both sides while messages are sent, lost by cuts and replayed. It can read the
    frames before the keys exist, and none after them: no part of a message, and no address of a session.
    """
    tapes = {node: lab.tape(node, peer) for node, peer in (("a", "b"), ("b", "a"))}
    peers(lab, features)
    for nth in (2, 6):
        lab.cut_at("a", "b", Breakpoint("a", "MESSAGE", nth, 70))
    for node, peer in ("a", "b"), ("b", "a"):
        lab.send(node, peer, 10, 300, front_bytes=40, middle_bytes=20)
    lab.expect_delivered("a", "b", 10)
    lab.expect_delivered("b", "a", 10)
    lab.settle()
    lab.require(len(lab.records("a", "auth")) >= 3, "messages were sent again on other links")
    for node, tape in tapes.items():
        received = bytes(tape.received)
        lab.require(received.startswith(b"ceph v2\n"), "the banner can be read")
        for word in (b" message ", f"{node}.1 message".encode(), b"message 1 "):
            lab.require(word not in received, f"{word!r} can be read in what {node} sent")
