"""The supervisor's program, which starts before its cluster is known."""

import os
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import msgrlab, state
from toolkit.cluster.spec_lookup import located
from toolkit.cluster.supervisor.client import Starting
from toolkit.cluster.supervisor.program import Program
from toolkit.machine.leases import Lease

__all__ = ["state"]

WAIT_S = 30.0


def test_a_program_whose_input_ends_exits() -> None:
    program = Program()
    program.close()
    assert program.process.wait(WAIT_S) == 0


@pytest.mark.usefixtures("state")
def test_a_program_whose_input_ends_within_its_parameters_exits() -> None:
    program = Program()
    assert program.process.stdin is not None
    program.process.stdin.write(b'{"name": ')
    program.close()
    assert program.process.wait(WAIT_S) == 0


def test_a_wrong_command_line_leaves_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"MSGRLAB_TEST_MARK={os.getpid()}-{os.urandom(4).hex()}"
    monkeypatch.setenv(*mark.split("=", 1))
    assert msgrlab("up", "no-such-spec").returncode == 2
    assert msgrlab("up", "--no-such-option").returncode == 2
    environments = []
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            try:
                environments.append((process / "environ").read_bytes())
            except OSError:
                continue
    assert [each for each in environments if mark.encode() in each.split(b"\0")] == []


@pytest.mark.usefixtures("state")
def test_the_error_of_a_cluster_that_is_removed_meanwhile_is_that_of_the_program() -> None:
    file, _ = located("two-peers")
    program = Program()
    lease = Lease.take("pair")
    lease.journal.undo()
    starting = Starting(lease, file, "", [], program)
    with pytest.raises(LocalError, match="cluster 'pair' did not come up: no cluster 'pair'; none is up"):
        list(starting.events())


def test_a_program_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no imports today')\n", encoding="ascii")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = Program()
    assert "no imports today" in program.last_words(tmp_path / "missing.log")
    program.close()
