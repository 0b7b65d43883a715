"""Cells of the matrix with the Ceph of this machine: one setup with real daemons, one with embedded ones."""

from pathlib import Path

import pytest

from toolkit.matrix.runner import Run
from toolkit.matrix.table import HOST, Verdict, select

pytestmark = [
    pytest.mark.needs("ceph-osd", "ceph-mon", "ceph", "netns"),
    pytest.mark.xdist_group("ceph_cluster"),
]
SETUP = f"{HOST}/v2-secure/aes"
CELLS = {
    "server/reconnect": "2 links to the OSD",
    "server/loss10": "TCP segments were sent again",
    "peer/rekey": "requests for tickets on the open session; tickets used were good for",
    "client/rekey": "rados watch was notified after its link was reset",
    "peer/replay": "10 of them sent again on another link",
    "peer/standby": "the session went on 1 times: SESSION_RECONNECT",
    "client/reconnect": "after the cuts the object has each append once: <0><1><2>",
    "client/restart": "sessions with the OSD at",
}
"""And what is to be seen of each."""


def test_cells_succeed_with_their_required_evidence(tmp_path: Path) -> None:
    run = Run(select([f"{SETUP}/{cell}" for cell in CELLS], [HOST]), tmp_path)
    outcomes = run.go()
    assert [(one.cell.id, one.reason) for one in outcomes if one.verdict is not Verdict.SUCCEEDED] == []
    for outcome in outcomes:
        seen = " ".join(outcome.evidence)
        assert CELLS[f"{outcome.cell.role}/{outcome.cell.case}"] in seen
        assert "secure; every frame read" in seen
        assert "all invariants hold" in seen
        assert outcome.directory is not None
        left = {path.name for path in outcome.directory.iterdir()}
        assert {"capture.pcapng", "ceph.keyring", "history.ndjson", "outcome.txt"} <= left
        assert any(name.endswith(".log") for name in left)
