"""Packets that a capture has in another order than they were on the wire: TCP's own numbers order them."""

from pathlib import Path
from random import Random

import pytest

from messenger.v2.wire import Ack
from tests.support.crafted import TO_CLIENT, TO_SERVER, Connection, Peers, Tape, control, exchange, msg
from tests.support.links import SESSIONS, session
from tests.support.packets import ACK, PSH
from toolkit.dissect.capture import Capture
from toolkit.dissect.decode import decode_capture
from toolkit.dissect.frames import Verdict


def jittered(tape: Tape, rng: Random, most_ns: int = 500_000) -> Tape:
    """The same packets, each late by up to half a millisecond."""
    return Tape([(time_ns + rng.randrange(most_ns), packet) for time_ns, packet in tape.packets])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SESSIONS)
def test_no_frame_is_lost_or_judged_bad(name: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("jitter") / "jitter.pcap"
    one, tape = session(name), Tape(step_ns=30_000)
    Connection(tape).open().play(one.script).close()
    in_order = list(decode_capture(tape.write(path), one.keys))
    found = list(decode_capture(jittered(tape, Random(seed)).write(path), one.keys))
    assert [frame for frame in found if frame.error or Verdict.BAD in (frame.crc, frame.auth)] == []
    for way in (TO_SERVER, TO_CLIENT):
        tags = [[frame.tag for frame in frames if frame.direction is way] for frames in (in_order, found)]
        assert tags[0] == tags[1]
    assert {frame.stream.index for frame in found} == {0}


@pytest.mark.parametrize("seed", range(5))
def test_no_invariant_is_violated_by_the_order_of_the_capture(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tape = Tape(step_ns=30_000)
    Connection(tape).open().play(Peers().begin()).play(exchange(5)).close()
    path = jittered(tape, Random(seed)).write(tmp_path_factory.mktemp("jitter") / "jitter.pcap")
    assert [result for result in Capture(path).check() if not result.ok] == []


def test_decoder_accepts_data_captured_before_its_syn(tmp_path_factory: pytest.TempPathFactory) -> None:
    tape = Tape()
    Connection(tape).open().play(Peers().begin())
    tape.packets[:5] = [
        (time_ns, packet) for (time_ns, _), (_, packet) in zip(tape.packets[:5], tape.packets[4::-1], strict=True)
    ]
    path = tape.write(tmp_path_factory.mktemp("jitter") / "late.pcap")
    frames = list(decode_capture(path))
    assert all(frame.stream.opening_seen and frame.error is None for frame in frames)


def test_a_connection_without_its_syn_does_not_wait_for_ever(tmp_path_factory: pytest.TempPathFactory) -> None:
    tape = Tape()
    one = Connection(tape)
    one.open().play(Peers().begin())
    del tape.packets[:3]
    path = tape.write(tmp_path_factory.mktemp("jitter") / "midstream.pcap")
    frames = list(decode_capture(path))
    assert [frame.tag for frame in frames][:2] == ["BANNER", "BANNER"]
    assert not any(frame.stream.opening_seen for frame in frames)


def test_a_reset_before_the_last_data(tmp_path_factory: pytest.TempPathFactory) -> None:
    tape = Tape()
    one = Connection(tape).open().play(Peers().begin())
    for way, raw in exchange(1):
        one.packet(way, PSH | ACK, raw)
    one.reset(TO_SERVER)
    (reset_ns, reset), (reply_ns, reply) = tape.packets[-1], tape.packets[-2]
    tape.packets[-2:] = [(reply_ns, reset), (reset_ns, reply)]
    path = tape.write(tmp_path_factory.mktemp("jitter") / "reset.pcap")
    assert [frame.message.name for frame in decode_capture(path) if frame.message] == ["osd_op", "osd_op_reply"]


@pytest.mark.parametrize(
    ("ack_first_s", "acked", "rules"),
    [
        pytest.param(0.0001, 2, [], id="within what a capture may reorder"),
        pytest.param(0.5, 2, ["ack_known"], id="long before the message"),
        pytest.param(0.0001, 3, ["ack_known"], id="of a message that never comes"),
    ],
)
def test_early_ack_is_judged_only_if_the_capture_has_the_order(
    ack_first_s: float, acked: int, rules: list[str], tmp_path: Path
) -> None:
    tape = Tape(step_ns=1000)
    one = Connection(tape).open().play(Peers(client_cookie=5, server_cookie=7).begin())
    one.play([(TO_SERVER, msg(1)), (TO_CLIENT, control(Ack(1)))])
    one.packet(TO_CLIENT, PSH | ACK, control(Ack(acked)))
    tape.wait(ack_first_s)
    one.packet(TO_SERVER, PSH | ACK, msg(2))
    one.close()
    found = Capture(tape.write(tmp_path / "early.pcap")).audit()
    assert [broken.rule.id for broken in found.broken] == rules
