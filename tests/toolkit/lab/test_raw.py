"""Raw peers on both backends, in every way: they can be a proper peer, and notice when a node is not."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from messenger.v2.wire import Ack, Hello, Tag
from toolkit.errors import ScenarioFailed
from toolkit.lab.lab import Lab
from toolkit.lab.real.real_lab import RealLab
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.ways import ALL_WAYS, SECURE_WAYS, Way, ways
from toolkit.node.raw.frames import RawFrame
from toolkit.node.raw.link import RawLink
from toolkit.node.raw.peer import RawPeer

ROLES = ("connector", "acceptor")
"""What the node is; the raw peer is the other."""


@contextmanager
def lab_of(backend: str, way: Way | str) -> Iterator[Lab]:
    lab: Lab = SimLab(way, 1) if backend == "sim" else RealLab("local", way, 1, processes=False)
    try:
        yield lab
    finally:
        lab.close()


def meeting(lab: Lab, role: str) -> tuple[RawPeer, RawLink]:
    """A raw peer ``b``, and its link to a node ``a`` that has the given role."""
    peer = lab.raw("b", "osd.2")
    lab.node("a", "osd.1", "lossless_peer")
    lab.start()
    if role == "acceptor":
        return peer, peer.dial("a")
    lab.dial("a", "b")
    return peer, peer.accept("a")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("way", ALL_WAYS, ids=str)
@pytest.mark.parametrize("backend", ["sim", "local"])
def test_raw_peer_performs_handshake_and_exchange(backend: str, way: Way, role: str) -> None:
    with lab_of(backend, way) as lab:
        _, link = meeting(lab, role)
        link.handshake()
        lab.expect_state("a", "b", "READY")
        link.send_messages(1, 2)
        lab.expect_delivered("b", "a", 2)
        lab.send("a", "b", 3, front_bytes=10, middle_bytes=20, size_bytes=3000)
        messages = [frame for frame in link.rest(0.3) if hasattr(frame, "tid")]
        assert [(m.seq, m.tid, len(m.front), len(m.middle), len(m.data)) for m in messages] == [
            (seq, seq, 10, 20, 3000) for seq in (1, 2, 3)
        ]
        assert not link.closed
        assert lab.tids("a") == [1, 2]
        assert lab.faults("a") == []


@pytest.mark.parametrize("backend", ["sim", "local"])
@pytest.mark.parametrize("way", ways("v2-crc", "v1"), ids=str)
def test_links_come_one_after_the_other(backend: str, way: Way) -> None:
    with lab_of(backend, way) as lab:
        peer, link = meeting(lab, "connector")
        link.handshake().hang_up()
        lab.expect_state("a", "b", "STANDBY")
        peer.expect_no_dial(0.1)
        lab.send("a", "b")
        peer.accept("a")
        assert len(peer.links) == 2
        with pytest.raises(ScenarioFailed, match=r"a did not dial b within 0.1 s"):
            peer.accept("a", within_s=0.1)


@pytest.mark.parametrize("backend", ["sim", "local"])
def test_failed_expectation_is_described(backend: str) -> None:
    with lab_of(backend, "v2-crc") as lab:
        peer, link = meeting(lab, "acceptor")
        link.patience_s = 0.1
        link.banner()
        with pytest.raises(ScenarioFailed, match=r"by hand: Hello.* came where Ack is due; the link is open"):
            link.expect(Ack)
        with pytest.raises(ScenarioFailed, match="None came where Hello is due"):
            link.expect(Hello)
        with pytest.raises(ScenarioFailed, match="the link was to be closed within"):
            link.expect_closed()
        link.write(bytes([1]) + bytes(31))
        link.expect_closed(5.0)
        lab.expect_faults("a", "PREAMBLE_CRC")
        with pytest.raises(ScenarioFailed, match="no Ack came, but nothing; the link is closed"):
            link.skip_to(Ack)
        with pytest.raises(ScenarioFailed, match=r"faults of a: SOCKET expected, \['PREAMBLE_CRC'\] came"):
            lab.expect_faults("a", "SOCKET")
        lab.kill("a")
        with pytest.raises(ScenarioFailed, match=r"b (could not reach|dialled) a"):
            peer.dial("a")


def test_every_step_is_in_the_history() -> None:
    with lab_of("sim", "v2-crc") as lab:
        _, link = meeting(lab, "acceptor")
        link.handshake(until=link.auth_request)
        steps = [record["args"] for record in lab.history.of("step") if record["verb"] == "raw"]
        assert steps == [
            "b, osd.2",
            "b, dials a",
            "b, on link 1 sends its banner",
            "b, on link 1 sends HELLO",
            "b, on link 1 expects Hello",
        ]


@pytest.mark.parametrize("way", [*ways("v2-crc"), *SECURE_WAYS], ids=str)
@pytest.mark.parametrize("sizes", [(8,), (41, 0, 0, 5), (41, 7), (41, 100, 3), (41, 5, 0, 4097), (300,)])
def test_frames_by_hand_are_those_of_the_messenger(way: Way, sizes: tuple[int, ...]) -> None:
    """Built field by field as by the messenger's own writer, which both use the same keys."""
    with lab_of("sim", way) as lab:
        _, link = meeting(lab, "acceptor")
        link.handshake()
        twin = SimLab(way, 1)
        _, other = meeting(twin, "acceptor")
        other.handshake()
        parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
        frame = RawFrame(Tag.MESSAGE if len(parts) > 1 else Tag.HELLO, tuple(parts)).encode(link.seal)
        if len(parts) > 1:
            pieces: list = []
            other.writer.message(pieces, *[*parts, b"", b"", b""][:4])
            assert b"".join(pieces) == frame
        else:
            assert other.writer.control(Tag.HELLO, parts[0]) == frame
