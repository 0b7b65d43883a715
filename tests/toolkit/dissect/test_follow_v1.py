"""Following v1 links from outside, on the bytes that real endpoints exchange."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import FaultReason
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower, SeenFrame
from toolkit.lab.sim.sim_lab import SimLab

OPTIONS = {
    "as usual": {},
    "without MSG_AUTH": {"features_supported": CLIENT_FEATURES & ~Feature.MSG_AUTH},
    "without RECONNECT_SEQ": {"features_supported": CLIENT_FEATURES & ~Feature.RECONNECT_SEQ},
    "without checksums": {"ms_crc_data": False, "ms_crc_header": False},
}


class Recording:
    """The bytes between two nodes of a short simulated session, with a reconnect in its middle."""

    def __init__(self, options: dict[str, object]) -> None:
        lab = SimLab("v1", 3)
        self.wires: list[list[tuple[Direction, bytes]]] = []
        wires: dict[object, list[tuple[Direction, bytes]]] = {}
        for name, entity in (("a", "osd.1"), ("b", "osd.2")):
            lab.node(name, entity, "lossless_peer", **options)
        lab.start("a", "b")

        def seen(wire: object, direction: Direction, chunk: bytes) -> None:
            if wire not in wires:
                wires[wire] = []
                self.wires.append(wires[wire])
            wires[wire].append((direction, chunk))

        lab.network.on_bytes = seen
        lab.connect("a", "b")
        lab.send("a", "b", count=3, size_bytes=2000)
        lab.settle()
        lab.cut("a", "b")
        lab.send("a", "b", count=1, size_bytes=10)
        lab.expect_delivered("a", "b", 4)
        lab.settle()


@pytest.fixture(scope="module", params=OPTIONS)
def recording(request: pytest.FixtureRequest) -> Recording:
    """One session of each kind."""
    return Recording(OPTIONS[request.param])  # type: ignore[arg-type]


def follow(follower: LinkFollower, chunks: list[tuple[Direction, bytes]]) -> list[SeenFrame]:
    return [frame for direction, chunk in chunks for frame in follower.feed(direction, chunk)]


def tags_of(frames: list[SeenFrame], direction: Direction) -> list[str]:
    tags = [frame.tag for frame in frames if frame.direction is direction and frame.tag != "ACK"]
    return [tag for tag in tags if tag != "SEQ"]


def test_every_piece_is_seen_with_its_bytes(recording: Recording) -> None:
    first, second = recording.wires
    follower = LinkFollower()
    frames = follow(follower, first)
    assert follower.blind is None
    assert tags_of(frames, Direction.TO_SERVER) == [
        "BANNER",
        "IDENTIFY",
        "CONNECT",
        "CONNECT",
        "MSG",
        "MSG",
        "MSG",
    ]
    assert tags_of(frames, Direction.TO_CLIENT) == ["BANNER", "IDENTIFY", "CONNECT_REPLY", "CONNECT_REPLY"]
    for direction in Direction:
        mine = [frame for frame in frames if frame.direction is direction]
        stream = b"".join(chunk for way, chunk in first if way is direction)
        assert b"".join(frame.raw for frame in mine) == stream
        assert [frame.index for frame in mine] == list(range(len(mine)))
    replies = [frame.fields["tag"] for frame in follow(LinkFollower(), second) if frame.tag == "CONNECT_REPLY"]
    assert replies[0] == "CHALLENGE_AUTHORIZER"
    assert "RETRY_GLOBAL" in replies
    sizes = [frame.fields["data"] for frame in frames if frame.tag == "MSG"]
    assert sizes == [2000, 2000, 2000]


@given(st.integers(0, 1 << 32))
def test_chopping_does_not_matter(recording: Recording, seed: int) -> None:
    rng = Random(seed)
    for chunks in recording.wires:
        pieces = []
        for direction, chunk in chunks:
            rest = chunk
            while rest:
                size = rng.randrange(1, 200)
                pieces.append((direction, rest[:size]))
                rest = rest[size:]
        whole, chopped = follow(LinkFollower(), chunks), follow(LinkFollower(), pieces)
        assert sorted(map(repr, whole)) == sorted(map(repr, chopped))


@given(st.binary(max_size=400), st.sampled_from(Direction), st.integers(0, 3))
def test_noise_ends_following_without_an_exception(
    recording: Recording, noise: bytes, direction: Direction, whole: int
) -> None:
    follower = LinkFollower()
    follow(follower, recording.wires[0][:whole])
    follower.feed(direction, noise)
    assert follower.blind is None or follower.blind.reason in FaultReason


def test_v1_and_v2_banners_are_distinguished_by_the_last_letters() -> None:
    follower = LinkFollower()
    assert follower.feed(Direction.TO_SERVER, b"ceph v") == []
    (frame,) = follower.feed(Direction.TO_SERVER, b"027")
    assert (frame.tag, frame.raw) == ("BANNER", b"ceph v027")
