"""Every row of the tables of v1 leads to the states that it names."""

import pytest

from messenger.link import Protocol
from messenger.session.policy import LOSSLESS_CLIENT, LOSSLESS_PEER, LOSSLESS_PEER_REUSE, STATEFUL_SERVER
from messenger.v1.acceptor import ACCEPTOR
from messenger.v1.connector import CONNECTOR
from messenger.v1.link import V1Link
from messenger.v1.states import LinkState
from messenger.v1.wire import Banner, ConnectReply, Frame, Piece, Tag
from tests.support.network import Pair
from tests.support.node import prefer_cephx
from tests.support.transitions import step_noter

Step = tuple[LinkState, Piece | Tag, LinkState]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[Step]:
    """Every step that links take during the test, faults aside."""
    steps: set[Step] = set()
    cut, handshake_step = V1Link._cut, V1Link.handshake_step
    pieces: list[Frame] = []

    def noted(self: V1Link, view: memoryview) -> tuple[int, Frame] | None:
        found = cut(self, view)
        pieces[:] = [found[1]] if found is not None else []
        return found

    def watched(self: V1Link, view: memoryview, start: int, end: int, *, owned: bool, now: float) -> int:
        before = LinkState(self.state)
        size = handshake_step(self, view, start, end, owned=owned, now=now)
        if size and not self.closed and not isinstance(pieces[0], Banner):
            piece = pieces[0]
            key = piece.tag if isinstance(piece, ConnectReply) else piece.PIECE
            note(self, before, key)
        return size

    note = step_noter(steps, monkeypatch)
    monkeypatch.setattr(V1Link, "_cut", noted)
    monkeypatch.setattr(V1Link, "handshake_step", watched)
    return steps


def test_rows_lead_to_their_listed_states(seen: set[Step]) -> None:
    for auth in ("none", "cephx"):
        for policies in ((LOSSLESS_PEER_REUSE, LOSSLESS_PEER_REUSE), (LOSSLESS_CLIENT, STATEFUL_SERVER)):
            pair = Pair(*policies, auth=auth, protocol=Protocol.V1)
            mine, _ = pair.established()
            for _ in range(2):
                pair.wire.cut()
                pair.a.send(mine, 1)
                pair.pass_time(1.0)
            pair.restart_b()
            pair.a.send(mine, 2)
            pair.pass_time(1.0)
    pair = Pair(LOSSLESS_PEER, protocol=Protocol.V1)
    pair.established()
    born = pair.restart_b()
    born.connect(pair.a_addr)
    pair.pass_time(1.0)
    pair = Pair(LOSSLESS_PEER, protocol=Protocol.V1)
    mine, _ = pair.established()
    pair.wire.cut()
    pair.pass_time(1.0)
    pair.a.send(mine, 1)  # from STANDBY: RETRY_SESSION
    pair.pass_time(1.0)
    pair = Pair(LOSSLESS_PEER, auth="none", protocol=Protocol.V1)
    prefer_cephx(pair.a)
    pair.established()
    table = CONNECTOR | ACCEPTOR
    listed = {(state, key, target) for (state, key), row in table.items() for target in row.leads_to}
    assert seen <= listed
    assert listed - seen == set()
