"""Frames that violate the protocol, of a peer that implements it, drawn from a seed."""

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.features import MSGR2_SUPPORTED
from messenger.denc.layout import layout_of
from messenger.errors import PeerError
from messenger.v1.wire import REPLY_TAGS, Ack, Close, Connect, ConnectReply, KeepAlive, KeepAlive2, Seq
from messenger.v2.wire import ControlFrame, Tag
from toolkit.errors import ScenarioFailed
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, v2_samples
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.peer import RawPeer
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v2 import RawV2Link

_NUMBERS = (0, 1, 2, 3, 7, 41, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_ADDRS = ("v2:127.0.0.1:6801/1001", "v1:127.0.0.1:6802/1002", "-", "any:0.0.0.0:0/7")
_PATIENCE_S = 0.02
_DIAL_WITHIN_S = 0.3
_FEATURES = (1, MSGR2_SUPPORTED, 0, 2)
_MOST_BYTES = 300


def utter(lab: Lab, peer: RawPeer, role: str) -> None:
    """Send drawn frames on one link, and close it at the end.

    Args:
        lab: the lab with node ``a``.
        peer: the raw peer.
        role: role of the node.
    """
    rng = lab.rng
    link = _new_link(lab, peer, role, rng)
    link.patience_s = _PATIENCE_S
    steps = list(link.steps)
    done = rng.randrange(len(steps) + 1)
    # The answers of the node are not those that a step of the handshake expects, or no frames.
    with suppress(ScenarioFailed, PeerError):
        for step in steps[:done]:
            step()
    for _ in range(rng.randrange(1, 4)):
        _send_drawn(link, rng)
    if rng.random() < 0.5:
        with suppress(ScenarioFailed, PeerError, AttributeError):
            for step in steps[done:]:
                step()
    lab.wait(0.005)
    link.hang_up()


def _new_link(lab: Lab, peer: RawPeer, role: str, rng: Random) -> RawLink:
    options = {} if lab.is_v1 else {"features": rng.choice(_FEATURES)}
    link: RawLink
    if role != CONNECTOR:
        link = peer.dial("a", **options)
        return link
    if lab.session("a", "b"):
        with suppress(ScenarioFailed):  # CLOSE of v1 may just be ending the session
            link = peer.accept("a", within_s=_DIAL_WITHIN_S, **options)
            return link
    lab.dial("a", "b")
    link = peer.accept("a", **options)
    return link


def _send_drawn(link: RawLink, rng: Random) -> None:
    if isinstance(link, RawV2Link):
        rng.choice(_V2)(link, rng)
    else:
        assert isinstance(link, RawV1Link)
        rng.choice(_V1)(link, rng)


# ---- pieces of all kinds


def _number(rng: Random, bits: int = 64) -> int:
    value = rng.choice(_NUMBERS) if rng.random() < 0.7 else rng.getrandbits(bits)
    return value & ((1 << bits) - 1)


def _bytes(rng: Random, most: int = _MOST_BYTES) -> bytes:
    return rng.randbytes(rng.randrange(most + 1))


def _addr(rng: Random) -> EntityAddr:
    addr = EntityAddr.parse(
        rng.choice(["v2:127.0.0.1:6801/1001", "v1:127.0.0.1:6802/1002", "-", "any:0.0.0.0:0/7"])
    )
    return replace(addr, port=_number(rng, 16), nonce=_number(rng, 32)) if rng.random() < 0.5 else addr


def _changed(raw: bytes, rng: Random) -> bytes:
    """The bytes cut, stretched, spliced, or with a few of them changed."""
    at = rng.randrange(len(raw) + 1)
    way = rng.randrange(5)
    if way == 0:
        return raw[:at]
    if way == 1:
        return raw + _bytes(rng)
    if way == 2:
        return raw[:at] + _bytes(rng, 8) + raw[at:]
    if way == 3:
        return raw[:at] + raw[at + rng.randrange(9) :]
    changed = bytearray(raw or b"\0")
    for _ in range(rng.randrange(1, 5)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def _noise(link: RawLink, rng: Random) -> None:
    link.write(_bytes(rng))


# ---- v2


def _any_value(value: Any, rng: Random) -> Any:  # noqa: ANN401 - of any field
    """Another value of the same type."""
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int):
        return _number(rng, rng.choice((8, 16, 31, 32, 64)))
    if isinstance(value, bytes):
        return _changed(value, rng)
    if isinstance(value, list):
        return [_number(rng, 32) for _ in range(rng.randrange(6))]
    if isinstance(value, EntityAddr):
        return _addr(rng)
    if isinstance(value, AddrVec):
        return AddrVec(tuple(_addr(rng) for _ in range(rng.randrange(4))))
    return value


def _payload(frame: ControlFrame, rng: Random) -> bytes:
    """The frame with other values in some fields, and perhaps other bytes; empty if it cannot be encoded."""
    fields = [name for name, _, _ in layout_of(type(frame))]
    changes = {name: _any_value(getattr(frame, name), rng) for name in fields if rng.random() < 0.4}
    with suppress(struct.error, ValueError):
        frame = replace(frame, **changes)  # type: ignore[type-var]
        raw = frame.encode()
        return _changed(raw, rng) if rng.random() < 0.3 else raw
    return b""


def _control(link: RawV2Link, rng: Random) -> None:
    frame = v2_samples(link)[rng.choice([tag for tag in Tag if tag != Tag.MESSAGE])]
    link.write(link.writer.control(frame.TAG, _payload(frame, rng)))


def _any_tag(link: RawV2Link, rng: Random) -> None:
    link.write(link.writer.control(rng.randrange(256), _bytes(rng)))


def _message(link: RawV2Link, rng: Random) -> None:
    parts = {name: _bytes(rng) for name in ("front", "middle", "data") if rng.random() < 0.5}
    numbers = {"ack_seq": _number(rng), "tid": _number(rng), "type_": _number(rng, 16)}
    versions = {"version": _number(rng, 16), "compat_version": _number(rng, 16)}
    chosen = {name: value for name, value in (numbers | versions).items() if rng.random() < 0.3}
    link.write(link.message(rng.choice((0, 1, 2, 5, _number(rng))), **parts, **chosen))  # type: ignore[arg-type]


def _raw_frame(link: RawV2Link, rng: Random) -> None:
    """A frame of which any field may be wrong."""
    segments = tuple(_bytes(rng) for _ in range(rng.randrange(1, 5)))
    wrong: dict[str, Callable[[], Any]] = {
        "count": lambda: rng.randrange(256),
        "lengths": lambda: tuple(_number(rng, 32) for _ in range(rng.randrange(5))),
        "alignments": lambda: tuple(_number(rng, 16) for _ in range(4)),
        "flags": lambda: rng.randrange(256),
        "reserved": lambda: rng.randrange(256),
        "late_status": lambda: rng.randrange(256),
        "crc_masks": lambda: tuple(rng.getrandbits(1) for _ in range(4)),
    }
    fields = {name: draw() for name, draw in wrong.items() if rng.random() < 0.25}
    link.write(RawFrame(rng.randrange(24), segments, **fields).encode(link.seal))


def _banner_again(link: RawV2Link, rng: Random) -> None:
    link.write(_changed(b"ceph v2\n\x10\0" + _number(rng).to_bytes(8, "little") + bytes(8), rng))


# ---- v1


def _connect(link: RawV1Link, rng: Random) -> None:
    proper = link.connect_message()
    fields = {
        "features": _number(rng),
        "global_seq": _number(rng, 32),
        "connect_seq": _number(rng, 32),
        "protocol_version": _number(rng, 32),
        "authorizer_protocol": _number(rng, 32),
        "flags": _number(rng, 8),
        "authorizer": _changed(proper.authorizer, rng),
    }
    changed: Connect = replace(proper, **{name: v for name, v in fields.items() if rng.random() < 0.3})  # type: ignore[arg-type]
    raw = changed.encode()
    link.write(_changed(raw, rng) if rng.random() < 0.2 else raw)


def _reply(link: RawV1Link, rng: Random) -> None:
    reply = ConnectReply(
        rng.choice(sorted(REPLY_TAGS)),
        rng.choice((link.features, _number(rng))),
        _number(rng, 32),
        _number(rng, 32),
        rng.choice((10, _number(rng, 32))),
        rng.randrange(256),
        rng.choice((b"", _bytes(rng))),
    )
    raw = reply.encode()
    link.write(_changed(raw, rng) if rng.random() < 0.2 else raw)


def _v1_small(link: RawV1Link, rng: Random) -> None:
    kinds = (Seq(_number(rng)), Ack(_number(rng)), KeepAlive(), KeepAlive2(_number(rng, 32), 1), Close())
    link.write(rng.choice(kinds).encode())


def _v1_message(link: RawV1Link, rng: Random) -> None:
    parts = {name: _bytes(rng) for name in ("front", "middle", "data") if rng.random() < 0.5}
    numbers = {"tid": _number(rng), "type_": _number(rng, 16)}
    versions = {"version": _number(rng, 16), "compat_version": _number(rng, 16)}
    chosen = {name: value for name, value in (numbers | versions).items() if rng.random() < 0.3}
    raw = link.message(rng.choice((0, 1, 2, 5, _number(rng))), **parts, **chosen)  # type: ignore[arg-type]
    link.write(_changed(raw, rng) if rng.random() < 0.4 else raw)


_V2: tuple[Callable[[RawV2Link, Random], None], ...] = (
    *(_control, _control, _control, _any_tag, _message, _message, _raw_frame, _raw_frame),
    *(_banner_again, _noise),
)
_V1: tuple[Callable[[RawV1Link, Random], None], ...] = (
    _connect,
    _reply,
    _v1_small,
    _v1_message,
    _v1_message,
    _noise,
)
