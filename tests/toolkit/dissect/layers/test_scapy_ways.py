"""Scapy's own tools on the layers: json(), command(), sr1(), hexdump()."""

import json
import socket
import threading
from pathlib import Path

import pytest
from scapy.all import *  # noqa: F403 - names that command() uses
from scapy.packet import Packet
from scapy.supersocket import StreamSocket
from scapy.utils import hexdump

from tests.support.crafted import TO_SERVER, Connection, Peers, Tape, msg
from toolkit.dissect.layers import *  # noqa: F403
from toolkit.dissect.layers import (
    MSGR,
    MSGR1,
    MSGR2,
    MSGR1_Ack,
    MSGR1_Message,
    MSGR2_Ack,
    MSGR2_AuthDone,
    MSGR2_AuthRequest,
    MSGR2_Hello,
    MSGR2_KeepAlive2,
    MSGR2_KeepAlive2Ack,
    MSGR2_Message,
    read_frames,
)

CAPTURES = Path(__file__).parents[4] / "captures"
KINDS = ["nautilus-v1", "nautilus-secure", "reef-compressed"]


def frames_of(name: str) -> list[Packet]:
    return list(read_frames(CAPTURES / name / "capture.pcapng.gz", CAPTURES / name / "keyring"))


@pytest.mark.parametrize("name", KINDS)
def test_json_and_command_of_every_frame(name: str) -> None:
    for frame in frames_of(name):
        json.loads(frame.json())
        assert bytes(eval(frame.command())) == bytes(frame), frame.summary()


def test_json_has_the_payload() -> None:
    typed = next(
        frame[MSGR2_Message]
        for frame in frames_of("nautilus-secure")
        if MSGR2_Message in frame and frame[MSGR2_Message].type == 42
    )
    assert json.loads(typed.json())["typed"]["oid"] == "greeting"


def test_a_payload_that_is_assigned_again_keeps_its_version() -> None:
    for frame in frames_of("nautilus-secure"):
        if MSGR2_Message in frame and frame[MSGR2_Message].type == 42:
            layer = frame[MSGR2_Message].copy()
            before = layer.version, layer.compat_version, layer.front
            layer.typed = layer.typed
            assert (layer.version, layer.compat_version, layer.front) == before == (8, 3, before[2])


@pytest.mark.parametrize(
    ("asked", "answered", "is_answer"),
    [
        (MSGR2() / MSGR2_Hello(), MSGR2() / MSGR2_Hello(), 1),
        (MSGR2() / MSGR2_AuthRequest(), MSGR2() / MSGR2_AuthDone(), 1),
        (MSGR2() / MSGR2_AuthRequest(), MSGR2() / MSGR2_Hello(), 0),
        (MSGR2() / MSGR2_KeepAlive2(seconds=3), MSGR2() / MSGR2_KeepAlive2Ack(seconds=3), 1),
        (MSGR2() / MSGR2_KeepAlive2(seconds=3), MSGR2() / MSGR2_KeepAlive2Ack(seconds=4), 0),
        (MSGR2() / MSGR2_Message(seq=4), MSGR2() / MSGR2_Ack(seq=5), 1),
        (MSGR2() / MSGR2_Message(seq=4), MSGR2() / MSGR2_Ack(seq=3), 0),
        (MSGR2() / MSGR2_Message(tid=4, type=42), MSGR2() / MSGR2_Message(tid=4, type=43), 1),
        (MSGR2() / MSGR2_Message(tid=4, type=42), MSGR2() / MSGR2_Message(tid=5, type=43), 0),
        (MSGR1() / MSGR1_Message(seq=4), MSGR1() / MSGR1_Ack(seq=4), 1),
        (MSGR1() / MSGR1_Message(seq=4), MSGR2() / MSGR2_Ack(seq=4), 0),
    ],
)
def test_answers_matches_requests_with_replies(asked: Packet, answered: Packet, is_answer: int) -> None:
    assert answered.answers(asked) == is_answer
    assert asked.hashret() == answered.hashret()


def test_sr1_gets_the_answer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reply = MSGR2() / MSGR2_KeepAlive2Ack(seconds=7, nanoseconds=8)

        def serve() -> None:
            theirs.recv(4096)
            theirs.sendall(bytes(MSGR2() / MSGR2_Ack(seq=1)) + bytes(reply))

        server = threading.Thread(target=serve)
        server.start()
        stream = StreamSocket(ours, MSGR)
        found = stream.sr1(MSGR2() / MSGR2_KeepAlive2(seconds=7, nanoseconds=8), timeout=90, verbose=False)
        server.join()
    assert bytes(found) == bytes(reply)


def test_the_crcs_of_a_v1_message_are_recomputed_from_its_tag() -> None:
    frame = MSGR1(bytes(MSGR1() / MSGR1_Message(front=b"one")))
    frame[MSGR1_Message].front = b"two"
    assert MSGR1(bytes(frame.recompute()))[MSGR1_Message].crc_ok


def test_a_frame_beyond_64_kib_is_shown_and_built(tmp_path: Path) -> None:
    tape = Tape()
    Connection(tape).open().play([*Peers().begin(), (TO_SERVER, msg(1, data=bytes(70_000)))])
    frame = list(read_frames(tape.write(tmp_path / "large.pcap")))[-1]
    assert "data" in frame.show2(dump=True)
    assert hexdump(frame, dump=True).count("\n") > 70_000 // 16
    assert len(bytes(frame)) > 70_000
