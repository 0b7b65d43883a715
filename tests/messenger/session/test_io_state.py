"""What the io half of a session does, as crimson names it (docs/protocol.md §4.12)."""

import pytest

from messenger.link import Protocol
from messenger.session.policy import LOSSLESS_PEER
from messenger.session.session import IoState, SessionState
from tests.support.network import Dial, Pair
from tests.support.node import new_node


@pytest.mark.parametrize("protocol", Protocol)
def test_the_io_half_is_open_only_while_messages_flow(protocol: Protocol) -> None:
    pair = Pair(LOSSLESS_PEER, protocol=protocol)
    mine = pair.connect()
    assert (mine.state, mine.io_state) == (SessionState.CONNECTING, IoState.DELAY)
    pair.drive()
    (theirs,) = pair.b.endpoint.sessions
    assert {mine.io_state, theirs.io_state} == {IoState.OPEN}
    pair.answer = lambda _node, _addr: Dial.REFUSED
    pair.wire.cut()
    pair.a.send(mine, 1)
    pair.drive()
    assert (mine.state, mine.io_state) == (SessionState.CONNECTING, IoState.DELAY)
    assert (theirs.state, theirs.io_state) == (SessionState.STANDBY, IoState.DELAY)
    pair.a.mark_down(mine)
    pair.drive()
    assert mine.io_state is IoState.DROP


def test_io_state_of_the_loopback_session_is_open() -> None:
    assert new_node().endpoint.loopback.io_state is IoState.OPEN
