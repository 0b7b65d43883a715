"""CO: negotiation of compression, compressed frames, and malformed ones."""

from struct import Struct
from typing import Any

import lz4.block

from messenger.denc.features import MSGR2_SUPPORTED
from messenger.interception import Action
from messenger.v2.compressor import Algorithm, new_compressor
from messenger.v2.wire import MESSAGE_HEADER, Tag
from toolkit.faults.tap import Breakpoint
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS
from toolkit.lab.ways import CRC_WAYS, SECURE_WAYS, ways
from toolkit.node.raw.frames import FLAG_COMPRESSED, RawFrame
from toolkit.scenarios.compression import CO
from toolkit.scenarios.shared.by_hand import hang_up

_U32 = Struct("<I")
_LZ4_SIZES = Struct("<II")
"""The lengths of a block of lz4, decompressed and compressed."""
_FORCE: dict[str, Any] = {"ms_osd_compress_mode": "force"}
_HEADER_BYTES = MESSAGE_HEADER.size
_AROUND_BYTES = 32 + _HEADER_BYTES + 4 + 13
"""Length of a message with data only, in crc mode, without its data."""
_LARGE_BYTES = 50_000
_LIMIT_BYTES = 1 << 20
"""The max_frame_bytes of the node of CO-09."""
_SPARE_BYTES = 512 << 20
"""Memory that its process may allocate above its present use."""
_ALGORITHMS = {algorithm.name.lower(): {"algorithm": algorithm} for algorithm in list(Algorithm)[1:]}


def _done(lab: Lab) -> tuple[bool, int]:
    """Fields of the last COMPRESSION_DONE, which are equal on both sides."""
    written, read = (lab.frames("b", "COMPRESSION_DONE"), lab.frames("a", "COMPRESSION_DONE", "rx"))
    fields = written[-1]["fields"]
    lab.require(read[-1]["fields"] == fields, "both sides have the same COMPRESSION_DONE")
    return bool(fields["is_compress"]), int(fields["method"])


def _expect_done(lab: Lab, algorithm: Algorithm) -> None:
    wanted = (algorithm is not Algorithm.NONE, int(algorithm))
    lab.require(_done(lab) == wanted, f"{wanted} expected in COMPRESSION_DONE, it says {_done(lab)}")


def _expect_large(lab: Lab, *, smaller: bool) -> None:
    """Send a large message each way, and require that it is compressed on the wire, or that it is not."""
    for node, peer in ("a", "b"), ("b", "a"):
        before = lab.delivered(node, peer)
        lab.send(node, peer, 1, _LARGE_BYTES)
        lab.expect_delivered(node, peer, before + 1)
        length = lab.messages(node)[-1]["length"]
        lab.require(
            (length < _LARGE_BYTES / 2) is smaller, f"{_LARGE_BYTES} bytes of {node} are {length} on the wire"
        )


@CO.scenario("CO-01", "force_snappy_osd", ways=CRC_WAYS)
def force_snappy_osd(lab: Lab) -> None:
    """OSDs with compression enabled compress large frames.

    Both sides have compression mode force, with the default algorithm. They agree on snappy; large messages are
    smaller on the wire in both directions, small ones are not compressed, and all arrive unchanged.
    """
    lab.two(**_FORCE)
    lab.connect("a", "b")
    _expect_done(lab, Algorithm.SNAPPY)
    _expect_large(lab, smaller=True)
    lab.send("a", "b", 1, 100)
    lab.expect_delivered("a", "b", 2)
    lab.require(lab.messages("a")[-1]["length"] == _AROUND_BYTES + 100, "a small message stays as it is")
    lab.settle()


@CO.scenario(
    "CO-02",
    "no_common_algorithm",
    ways=CRC_WAYS,
    cases={
        "disjoint lists": {
            "options_a": _FORCE,
            "options_b": {**_FORCE, "ms_osd_compression_algorithm": "zstd lz4"},
        },
        "only one wishes it": {"options_a": _FORCE, "options_b": {}},
        "only the other": {"options_a": {}, "options_b": _FORCE},
        "without the feature": {"options_a": _FORCE, "options_b": {**_FORCE, "msgr2_features": 1}},
    },
)
def no_common_algorithm(lab: Lab, options_a: dict[str, Any], options_b: dict[str, Any]) -> None:
    """Nothing is compressed without a common algorithm or if one side disables it.

    The lists of algorithms have nothing in common, or one side disables compression or lacks the feature. The
    session opens, and large messages pass uncompressed.
    """
    lab.node("a", "osd.1", "lossless_peer", **options_a)
    lab.node("b", "osd.2", "lossless_peer", **options_b)
    lab.start()
    lab.connect("a", "b")
    if "msgr2_features" in options_b:
        lab.require(not lab.frames("a", "COMPRESSION_REQUEST"), "nobody asks who cannot answer")
    else:
        _expect_done(lab, Algorithm.NONE)
    _expect_large(lab, smaller=False)
    lab.settle()


@CO.scenario(
    "CO-03",
    "client_order_wins",
    ways=CRC_WAYS,
    cases={
        "zstd first": {"order_a": "zstd snappy", "order_b": "snappy zstd", "wins": Algorithm.ZSTD},
        "snappy first": {"order_a": "snappy zstd", "order_b": "zstd snappy", "wins": Algorithm.SNAPPY},
        "first one unknown there": {"order_a": "brotli lz4 zlib", "order_b": "zlib lz4", "wins": Algorithm.LZ4},
    },
)
def client_order_wins(lab: Lab, order_a: str, order_b: str, wins: Algorithm) -> None:
    """The algorithm is the first of the connector's list that the acceptor allows.

    Both sides have lists of several algorithms, in different orders.
    """
    lab.node("a", "osd.1", "lossless_peer", **_FORCE, ms_osd_compression_algorithm=order_a)
    lab.node("b", "osd.2", "lossless_peer", **_FORCE, ms_osd_compression_algorithm=order_b)
    lab.start()
    lab.connect("a", "b")
    _expect_done(lab, wins)
    _expect_large(lab, smaller=True)
    lab.settle()


_OTHERS = ("client.7", "mon.0", "mgr.3", "mds.4")


@CO.scenario(
    "CO-04",
    "non_osd_never",
    priority=2,
    ways=CRC_WAYS,
    cases={
        f"{one.partition('.')[0]} to {other.partition('.')[0]}": {"one": one, "other": other}
        for one, other in (*((other, "osd.2") for other in _OTHERS), *(("osd.1", other) for other in _OTHERS[1:]))
    },
)
def non_osd_never(lab: Lab, one: str, other: str) -> None:
    """Nothing is compressed unless both sides are OSDs.

    Both sides have compression mode force, and one is a client, a monitor, a manager or a metadata server.
    """
    lab.two("lossless_client", "stateful_server", one, other, **_FORCE)
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    _expect_done(lab, Algorithm.NONE)
    _expect_large(lab, smaller=False)
    lab.settle()


@CO.scenario("CO-05", "threshold_edges", ways=CRC_WAYS, cases=_ALGORITHMS)
def threshold_edges(lab: Lab, algorithm: Algorithm) -> None:
    """A frame is compressed from ms_osd_compress_min_size on, the sum of its segments.

    Messages one byte below, at and above the threshold are sent, some with empty segments, and one whose data
    alone is below it. Those below have their plain length on the wire, the others another one; all arrive
    unchanged.
    """
    least = 1024
    lab.two(**_FORCE, ms_osd_compress_min_size=least, ms_osd_compression_algorithm=algorithm.name.lower())
    lab.connect("a", "b")
    count = 0
    for total in (_HEADER_BYTES, _HEADER_BYTES + 1, least - 1, least, least + 1, 5 * least):
        for front in (0, 100):
            data = total - _HEADER_BYTES - front
            if data < 0:
                continue
            lab.send("a", "b", 1, data, front_bytes=front)
            count += 1
            lab.expect_delivered("a", "b", count)
            length = lab.messages("a")[-1]["length"]
            plain = 32 + _HEADER_BYTES + 4 + (front + data + 13 if front + data else 0)
            lab.require(
                (length == plain) is (total < least), f"{total} bytes are {length} on the wire, not {plain}"
            )
    lab.settle()


@CO.scenario(
    "CO-06",
    "secure_plus_compress",
    priority=2,
    ways=SECURE_WAYS,
    cases={"by default": {"allowed": False}, "allowed": {"allowed": True}},
)
def secure_plus_compress(lab: Lab, *, allowed: bool) -> None:
    """Secure links are compressed only with ms_compress_secure.

    The length of a compressed frame reveals something about its plaintext, so mode force is not enough: both sides
    have to set ms_compress_secure.
    """
    lab.two(**_FORCE, ms_compress_secure=allowed)
    lab.connect("a", "b")
    _expect_done(lab, Algorithm.SNAPPY if allowed else Algorithm.NONE)
    _expect_large(lab, smaller=allowed)
    lab.settle()


def _segments(size_bytes: int = 300) -> tuple[bytes, ...]:
    header = MESSAGE_HEADER.pack(1, 1, 2, 127, 1, 0, 0, 0, 3, 1, 0)
    return header, b"", b"", bytes(range(50)) * (size_bytes // 50)


@CO.scenario("CO-07", "corrupt_compressed", ways=ways("v2-crc"), cases=_ALGORITHMS)
def corrupt_compressed(lab: Lab, algorithm: Algorithm) -> None:
    """A compressed segment that is malformed breaks its link only.

    A peer sends messages with right crcs whose compressed segments have one byte changed, each byte in turn, or
    are cut short. A segment that still decompresses is delivered, any other breaks the link; the messenger goes on
    and opens the next link.
    """
    b = lab.raw("b", listens=False)
    name = algorithm.name.lower()
    lab.node("a", "osd.1", "lossless_peer", **_FORCE, ms_osd_compression_algorithm=name)
    lab.start()
    compressor = new_compressor(algorithm)
    small = tuple((segment and compressor.compress(segment)) or b"" for segment in _segments())
    spoilt = [_flipped(small, number, byte) for number in (0, 3) for byte in range(0, len(small[number]), 2)]
    spoilt += [(*small[:3], small[3][:length]) for length in range(1, len(small[3]), 3)]
    restored = 0
    for segments in spoilt:
        link = b.dial("a", features=MSGR2_SUPPORTED, algorithm=algorithm).handshake()
        before = len(lab.faults("a"))
        link.write(RawFrame(Tag.MESSAGE, segments, flags=FLAG_COMPRESSED).encode())
        delivered = lab.delivered("b", "a")
        link.stream.wait(lambda link=link, got=delivered: link.closed or lab.delivered("b", "a") > got, 1.0)
        if link.closed:
            reason = lab.faults("a")[before]
            lab.require(reason in {"COMPRESSION", "MALFORMED", "BAD_MESSAGE"}, f"{segments}: {reason}")
        restored += not link.closed
        link.hang_up()
        lab.wait(0.01)
    lab.require(restored < len(spoilt) / 2, f"{restored} of {len(spoilt)} spoilt messages were taken")
    proper = b.dial("a", features=MSGR2_SUPPORTED, algorithm=algorithm).handshake()
    before = lab.delivered("b", "a")
    proper.write(RawFrame(Tag.MESSAGE, small, flags=FLAG_COMPRESSED).encode())
    lab.expect_delivered("b", "a", before + 1)
    proper.hang_up()


def _flipped(segments: tuple[bytes, ...], number: int, byte: int) -> tuple[bytes, ...]:
    changed = bytearray(segments[number])
    changed[byte] ^= 0x55
    return (*segments[:number], bytes(changed), *segments[number + 1 :])


@CO.scenario(
    "CO-08",
    "compressed_without_negotiation",
    ways=ways("v2-crc", "v2-secure", "v2-secure-aes256k"),
    cases={
        f"{when} {role}": {"when": when, "dialled": role == "acceptor"}
        for when in ("hello", "auth", "ident", "message")
        for role in ("connector", "acceptor")
    },
)
def compressed_without_negotiation(lab: Lab, when: str, *, dialled: bool) -> None:
    """A compressed frame without negotiated compression breaks the link.

    The flag is set before, during and after authentication, and on an open link. The messenger breaks the link
    with a reason, and the session goes on with the next link.
    """
    b = lab.raw("b", listens=not dialled)
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    if not dialled:
        lab.send("a", "b")
    link = b.dial("a") if dialled else b.accept("a")
    until = {"hello": 1, "auth": 2, "ident": -1, "message": None}[when]
    for step in link.steps[:until]:
        step()
    if when == "hello":
        link.expect_banner()
    tag = {"hello": Tag.HELLO, "auth": Tag.AUTH_REQUEST if dialled else Tag.AUTH_REPLY_MORE}.get(when, Tag.MESSAGE)
    link.write(RawFrame(tag, _segments(), flags=FLAG_COMPRESSED).encode(link.seal))
    link.expect_closed()
    lab.expect_faults("a", "FRAME")
    lab.require(lab.delivered("b", "a") == 0, "nothing of it was delivered")
    proper = b.dial("a") if dialled else b.accept("a")
    proper.handshake(until=proper.ident)
    lab.require(lab.faults("a") == ["FRAME"], f"the next link is as good as ever: {lab.faults('a')}")
    proper.hang_up()


def _bomb(algorithm: Algorithm) -> bytes:
    """A segment of about a kilobyte that claims 4 GiB, or would decompress to a large size."""
    huge = 0xFFFFFFF0
    if algorithm is Algorithm.SNAPPY:
        return b"\xf0\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 300
    if algorithm is Algorithm.ZSTD:
        return huge.to_bytes(4, "little") + b"\x28\xb5\x2f\xfd" + bytes(900)
    if algorithm is Algorithm.LZ4:
        return (1).to_bytes(4, "little") + huge.to_bytes(4, "little") + (900).to_bytes(4, "little") + bytes(900)
    packed = new_compressor(algorithm).compress(bytes(4 << 20))
    assert packed is not None
    return packed


@CO.scenario("CO-09", "bomb", priority=2, ways=ways("v2-crc"), cases=_ALGORITHMS)
def bomb(lab: Lab, algorithm: Algorithm) -> None:
    """A compressed frame may decompress to max_frame_bytes at most.

    The limit is 1 MiB. A message whose segments decompress to exactly that is delivered. One with a byte more
    breaks the link, as does one whose segment claims 4 GiB in its own header, or is megabytes of one byte; a node
    that may allocate 512 MiB more than it has does not run out of memory. Nothing more is delivered, and none of
    its bytes are held.
    """
    b = lab.raw("b", listens=False)
    name = algorithm.name.lower()
    options = _FORCE | {"ms_osd_compression_algorithm": name, "max_frame_bytes": _LIMIT_BYTES}
    lab.node("a", "osd.1", "stateful_server", **options)
    lab.start()
    compressor = new_compressor(algorithm)
    header, fits, too_long = map(
        compressor.compress,
        (_segments()[0], bytes(_LIMIT_BYTES - _HEADER_BYTES), bytes(_LIMIT_BYTES - _HEADER_BYTES + 1)),
    )
    assert header is not None
    lab.limit_memory("a", _SPARE_BYTES)
    try:
        for data in (fits, too_long, _bomb(algorithm)):
            assert data is not None
            before = len(lab.faults("a"))
            link = b.dial("a", features=MSGR2_SUPPORTED, algorithm=algorithm).handshake()
            link.write(RawFrame(Tag.MESSAGE, (header, b"", b"", data), flags=FLAG_COMPRESSED).encode())
            if data is fits:
                lab.expect_delivered("b", "a", 1)
                lab.require(
                    not lab.faults("a"), f"a message of the longest size breaks the link: {lab.faults('a')}"
                )
                hang_up(lab, link)
            else:
                link.expect_closed()
                lab.expect_fault_count("a", before + 1)
                lab.require(lab.faults("a")[-1] == "COMPRESSION", f"why the link broke: {lab.last_fault('a')}")
    finally:
        lab.limit_memory("a", None)
    lab.require(lab.delivered("b", "a") == 1, "a message that is too long was delivered")
    lab.require(lab.snapshot("a")["dispatch_bytes"] == 0, "something is held")
    lab.expect_memory("a", 0)


_POINTS = [f"COMPRESSION_{step} {way}" for step in ("REQUEST", "DONE") for way in ("WRITE", "READ")]
_WRITES_A = {"COMPRESSION_REQUEST WRITE", "COMPRESSION_DONE READ"}


@CO.scenario(
    "CO-10",
    "fault_at_compression_frames",
    priority=2,
    ways=ways("v2-crc", "v2-secure", "v2-compressed", "v2-crc-w2"),
    cases={
        f"{action} {point} {name}": {"point": point, "action": action, "pair": pair}
        for action in ("FAULT", "BLOCK", "STALL")
        for point in _POINTS
        for name, pair in PAIRS.items()
    },
)
def fault_at_compression_frames(lab: Lab, point: str, action: str, pair: Any) -> None:  # noqa: ANN401 - a Pair
    """The handshake survives a stop at each frame that negotiates compression.

    As COMPRESSION_REQUEST or COMPRESSION_DONE is written or read, the link breaks, is delayed, or is shut down.
    The session has not opened yet: there is one connect event and no reset, and queued messages arrive.
    """
    node = "a" if point in _WRITES_A else "b"
    pair.start(lab, **_FORCE)
    lab.arm(node, point, action)
    lab.send("a", "b", 3)
    lab.expect_hit(node, point)
    if action != Action.FAULT:
        lab.wait(0.05)
        lab.unblock(node)
    lab.expect_delivered("a", "b", 3)
    lab.settle()
    lab.expect_events("a", "b", connect=1)
    lab.expect_events("b", "a", accept=1)
    dials = 1 if action == Action.BLOCK else 2
    lab.require(lab.dials("a") == dials, f"{lab.dials('a')} dials, {dials} expected")


@CO.scenario(
    "CO-11",
    "renegotiate_on_reconnect",
    priority=2,
    ways=(*CRC_WAYS, *ways("v2-secure")),
    cases={
        "zstd to lz4": {"first": ("force", "zstd"), "then": ("force", "lz4")},
        "none to snappy": {"first": ("none", "snappy"), "then": ("force", "snappy")},
        "snappy to none": {"first": ("force", "snappy"), "then": ("none", "snappy")},
    },
)
def renegotiate_on_reconnect(lab: Lab, first: tuple[str, str], then: tuple[str, str]) -> None:
    """A session goes on if its next link compresses differently or not at all.

    The options change while large messages are being sent, and the link is cut in the middle of one. Messages that
    were not acknowledged are encoded again for the next link; each arrives once and unchanged.
    """

    def options(wish: tuple[str, str]) -> dict[str, Any]:
        return {
            "ms_osd_compress_mode": wish[0],
            "ms_osd_compression_algorithm": wish[1],
            "ms_compress_secure": True,
        }

    lab.two(**options(first))
    lab.connect("a", "b")
    _expect_large(lab, smaller=first[0] == "force")
    cut = Breakpoint("a", "MESSAGE", 3, 90)
    lab.cut_at("a", "b", cut)
    for node in "a", "b":
        lab.configure(node, **options(then))
    for node, peer in ("a", "b"), ("b", "a"):
        lab.send(node, peer, 8, 20_000)
    lab.expect_cut(cut)
    lab.expect_delivered("a", "b", 9)
    lab.expect_delivered("b", "a", 9)
    _expect_large(lab, smaller=then[0] == "force")
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "remote_reset")


@CO.scenario(
    "CO-12",
    "lz4_in_blocks",
    priority=2,
    ways=ways("v2-crc"),
    cases={f"{count} blocks": {"count": count} for count in (1, 2, 3, 7)},
)
def lz4_in_blocks(lab: Lab, count: int) -> None:
    """A segment that lz4 compressed piece by piece is decompressed as one.

    A peer whose data is in several buffers may compress each of them to a block, with the buffers before it as
    dictionary. The data segment of a message is split into 1 to 7 blocks of different lengths; it is delivered
    like the same message that is not compressed. One with a block less than announced breaks the link.
    """
    b = lab.raw("b", listens=False)
    lab.node("a", "osd.1", "lossless_peer", **_FORCE, ms_osd_compression_algorithm="lz4")
    lab.start()
    compressor = new_compressor(Algorithm.LZ4)
    header, _, _, data = _segments(5000)
    packed = compressor.compress(header)
    assert packed is not None
    link = b.dial("a", features=MSGR2_SUPPORTED, algorithm=Algorithm.LZ4).handshake()
    blocks = _in_blocks(data, count)
    link.write(RawFrame(Tag.MESSAGE, (packed, b"", b"", blocks), flags=FLAG_COMPRESSED).encode())
    link.write(link.message(2, data=data))
    lab.expect_delivered("b", "a", 2)
    digests = {record["digest"] for record in lab.records("a", "deliver")}
    lab.require(len(digests) == 1, "other data was delivered")
    lacking = _U32.pack(count + 1) + blocks[_U32.size :]
    link.write(RawFrame(Tag.MESSAGE, (packed, b"", b"", lacking), flags=FLAG_COMPRESSED).encode())
    link.expect_closed()
    lab.expect_faults("a", "COMPRESSION")


def _in_blocks(plain: bytes, count: int) -> bytes:
    """Compress to so many blocks, the first one the shortest."""
    ends = [len(plain) * (number + 1) ** 2 // count**2 for number in range(count)]
    begins = [0, *ends[:-1]]
    blocks = [
        lz4.block.compress(plain[begin:end], store_size=False, dict=plain[:begin])
        for begin, end in zip(begins, ends, strict=True)
    ]
    sizes = [
        _LZ4_SIZES.pack(end - begin, len(block)) for begin, end, block in zip(begins, ends, blocks, strict=True)
    ]
    return b"".join((_U32.pack(count), *sizes, *blocks))
