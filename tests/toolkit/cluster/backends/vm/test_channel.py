"""Frames between a cluster and the agent in its guest."""

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.errors import LocalError
from toolkit.cluster.backends.vm.channel import Channel, Frame, Kind, refusal, result
from toolkit.errors import Unsupported

FRAMES = st.lists(
    st.tuples(st.sampled_from(Kind), st.integers(0, (1 << 32) - 1), st.binary(max_size=300)), max_size=20
)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours.detach())
    with theirs:
        yield channel, theirs
    channel.close()


@given(FRAMES)
def test_frames_arrive_as_they_were_sent(frames: list[tuple[Kind, int, bytes]]) -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = Channel(ours.detach()), Channel(theirs.detach())

    def send() -> None:
        for kind, number, payload in frames:
            sender.send(kind, number, payload)
        sender.close()

    threading.Thread(target=send).start()
    assert list(receiver.frames()) == [Frame(*frame) for frame in frames]
    receiver.close()


def test_a_payload_larger_than_the_sockets_buffer_arrives(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    other = Channel(os.dup(theirs.fileno()))
    content = os.urandom(3 << 20)
    sending = threading.Thread(target=other.send, args=(Kind.OUTPUT, 7, content))
    sending.start()
    assert next(channel.frames()) == (Kind.OUTPUT, 7, content)
    sending.join()
    other.close()


@pytest.mark.parametrize("part", [b"\x01\x00", b"\x01\x00\x00\x00\x05\x00\x00\x00\x09half"])
def test_an_incomplete_frame_ends_the_stream(ends: tuple[Channel, socket.socket], part: bytes) -> None:
    channel, theirs = ends
    theirs.sendall(part)
    theirs.shutdown(socket.SHUT_WR)
    assert list(channel.frames()) == []


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Unsupported("no netem"), Unsupported, "no netem"),
        (LocalError("no node 'c'"), LocalError, "no node 'c'"),
        (KeyError("c"), LocalError, "KeyError: 'c'"),
    ],
)
def test_errors_arrive_with_their_kind(error: Exception, kind: type[Exception], words: str) -> None:
    with pytest.raises(LocalError, match=words) as caught:
        result(refusal(error))
    assert type(caught.value) is kind
