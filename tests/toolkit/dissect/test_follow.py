"""Following links from outside, on the bytes that real endpoints exchange."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import ConMode
from messenger.denc.features import MSGR2_SUPPORTED, Msgr2Feature
from messenger.errors import FaultReason
from messenger.v2.compressor import Algorithm
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower, SeenFrame
from toolkit.lab.sim.sim_lab import SimLab

AUTHENTICATION = ["BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REQUEST_MORE", "AUTH_SIGNATURE"]
SESSION = ["CLIENT_IDENT", "MESSAGE", "MESSAGE", "MESSAGE"]
COMPRESSED = {"ms_osd_compress_mode": "force", "ms_compress_secure": True, "ms_osd_compression_algorithm": "lz4"}
LINKS: dict[str, dict[str, Any]] = {
    "crc": {},
    "secure": {},
    "crc of 2.0": {"msgr2_features": 0},
    "secure of 2.0": {"msgr2_features": 0},
    "crc compressed": COMPRESSED,
    "secure compressed": COMPRESSED,
    "secure of 2.0 compressed": {"msgr2_features": 2, **COMPRESSED},
}
"""Options of both ends of a link."""


class Recording:
    """The bytes between two nodes of a short simulated session, and the keys to decrypt them."""

    def __init__(self, link: str) -> None:
        self.options = LINKS[link]
        mode = link.split(maxsplit=1)[0]
        self.con_mode = ConMode[mode.upper()]
        lab = SimLab(f"v2-{mode}", 3)
        self.chunks: list[tuple[Direction, bytes]] = []
        lab.node("a", "osd.1", "lossless_peer", **self.options)
        lab.node("b", "osd.2", "lossless_peer", **self.options)
        lab.start("a", "b")
        lab.network.on_bytes = lambda _wire, direction, chunk: self.chunks.append((direction, chunk))
        lab.connect("a", "b")
        lab.send("a", "b", count=3, size_bytes=2000)
        lab.settle()
        self.keys = lab.keys

    @property
    def conversation(self) -> list[str]:
        """Tags of the connector's frames, without acks."""
        features = self.options.get("msgr2_features", MSGR2_SUPPORTED)
        asked = ["COMPRESSION_REQUEST"] if features & Msgr2Feature.COMPRESSION else []
        return AUTHENTICATION + asked + SESSION

    def stream(self, direction: Direction) -> bytes:
        """Return all bytes of one direction."""
        return b"".join(chunk for way, chunk in self.chunks if way is direction)


@pytest.fixture(scope="module", params=LINKS)
def recording(request: pytest.FixtureRequest) -> Recording:
    """One session on each kind of link."""
    return Recording(request.param)


def _follow(follower: LinkFollower, chunks: list[tuple[Direction, bytes]]) -> list[SeenFrame]:
    return [frame for direction, chunk in chunks for frame in follower.feed(direction, chunk)]


def _tags(frames: list[SeenFrame], direction: Direction) -> list[str]:
    return [frame.tag for frame in frames if frame.direction is direction and frame.tag != "ACK"]


def test_every_frame_is_seen_with_its_bytes(recording: Recording) -> None:
    follower = LinkFollower(recording.keys)
    frames = _follow(follower, recording.chunks)
    assert follower.blind is None
    assert _tags(frames, Direction.TO_SERVER) == recording.conversation
    for direction in Direction:
        mine = [frame for frame in frames if frame.direction is direction]
        assert b"".join(frame.raw for frame in mine) == recording.stream(direction)
        assert [frame.index for frame in mine] == list(range(len(mine)))
        assert all(frame.offset == sum(len(f.raw) for f in mine[: frame.index]) for frame in mine)
    sizes = [frame.fields["data"] for frame in frames if frame.tag == "MESSAGE"]
    assert sizes == [2000, 2000, 2000]
    lengths = {len(frame.raw) > 2000 for frame in frames if frame.tag == "MESSAGE"}
    compressed = "ms_osd_compress_mode" in recording.options
    assert lengths == {not compressed}
    assert follower.algorithm is (Algorithm.LZ4 if compressed else Algorithm.NONE)


def test_the_mode_is_known(recording: Recording) -> None:
    follower = LinkFollower(recording.keys)
    _follow(follower, recording.chunks)
    assert follower.con_mode is recording.con_mode
    if follower.algorithm is Algorithm.NONE:
        readable = b"a.1 message 1" in recording.stream(Direction.TO_SERVER)
        assert readable == (recording.con_mode is ConMode.CRC)


def _pieces(chunks: list[tuple[Direction, bytes]], rng: Random) -> Iterator[tuple[Direction, bytes]]:
    for direction, chunk in chunks:
        rest = chunk
        while rest:
            size = rng.randrange(1, 200)
            yield direction, rest[:size]
            rest = rest[size:]


@given(st.integers(0, 1 << 32))
def test_chopping_does_not_matter(recording: Recording, seed: int) -> None:
    whole = _follow(LinkFollower(recording.keys), recording.chunks)
    chopped = _follow(LinkFollower(recording.keys), list(_pieces(recording.chunks, Random(seed))))
    assert sorted(map(repr, whole)) == sorted(map(repr, chopped))


def test_secure_link_without_keys_is_followed_up_to_auth_done() -> None:
    recording = Recording("secure")
    follower = LinkFollower()
    frames = _follow(follower, recording.chunks)
    assert _tags(frames, Direction.TO_SERVER) == AUTHENTICATION[:4]
    assert follower.blind is not None
    assert "the key that would open it is not known" in str(follower.blind)


@given(st.binary(max_size=300), st.sampled_from(Direction))
def test_noise_ends_following_without_an_exception(noise: bytes, direction: Direction) -> None:
    follower = LinkFollower()
    assert follower.feed(direction, b"HTTP/1.1 400 " + noise) == []
    assert follower.blind is not None
    assert follower.blind.reason is FaultReason.NOT_MSGR


def test_follower_accepts_bytes_after_an_undecryptable_frame(recording: Recording) -> None:
    follower = LinkFollower(recording.keys)
    last = max(at for at, (way, _) in enumerate(recording.chunks) if way is Direction.TO_SERVER)
    _follow(follower, recording.chunks[:last])
    direction, chunk = recording.chunks[last]
    follower.feed(direction, chunk[:-1] + bytes([chunk[-1] ^ 1]))
    assert follower.blind is not None
    assert follower.feed(direction, b"more") == []
    assert follower.pending(direction).endswith(b"more")
