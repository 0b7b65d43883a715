"""Numbers of clusters: unique in the machine, whatever state directories they are in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import ROOT, command_line, environment
from tests.support.machine_state import Apart, changes
from tests.support.users import OTHER_UID, as_user, needs_root, shared
from toolkit.machine import numbers
from toolkit.machine.leases import STATE_VARIABLE, Lease
from toolkit.machine.numbers import Holder

__all__ = ["shared"]

TAKE = """\
import sys
from pathlib import Path
from toolkit.machine import numbers
from toolkit.machine.leases import Lease
numbers._DIRECTORY = Path(sys.argv[1])
sys.stdin.read()
print(Lease.take(sys.argv[2]).label.number)
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of numbers of the test's own."""
    monkeypatch.setattr(numbers, "_DIRECTORY", tmp_path / "numbers")
    monkeypatch.setattr(numbers, "_NAMED", (tmp_path / "netns", tmp_path / "net"))
    return tmp_path / "numbers"


@needs_root
def test_concurrent_clusters_of_several_state_directories_get_different_numbers(
    tmp_path: Path, directory: Path
) -> None:
    taking = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", TAKE, str(directory), name],
            env={**os.environ, "PYTHONPATH": str(ROOT), STATE_VARIABLE: str(tmp_path / state)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for state in ("one", "two", "three", "four")
        for name in ("a", "b")
    ]
    for each in taking:  # all are about to take one
        assert each.stdin is not None
        each.stdin.close()
        each.stdin = None
    found = [int(each.communicate(timeout=60)[0]) for each in taking]
    assert len(set(found)) == len(taking)


@needs_root
def test_number_is_free_after_its_cluster_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for state in ("one", "two"):
        monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / state))
        found.append(Lease.take("pair"))
    assert [lease.label.number for lease in found] == [0, 1]
    assert numbers.holder_of(0) == Holder(found[0].directory, found[0].label.token)
    assert found[0].journal.undo() == []
    assert Lease.take("next").label.number == 0
    assert numbers.holder_of(0) != Holder(found[0].directory, found[0].label.token)


@needs_root
@pytest.mark.parametrize("record", [b"", b"0badc0de", b"0badc0de ", b"0badc0de /run/msg"])
def test_number_is_free_if_its_record_is_incomplete(
    record: bytes, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    directory.mkdir(mode=0o700)
    (directory / "0").write_bytes(record)
    assert Lease.take("pair").label.number == 0


@needs_root
def test_users_other_than_root_need_no_numbers_of_the_machine(
    shared: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(shared / "state"))
    assert as_user(OTHER_UID, lambda: Lease.take("pair").label.number) == 0
    assert not directory.exists()


@pytest.fixture
def apart() -> Iterator[Apart]:
    with Apart() as where:
        yield where


@pytest.mark.needs("netns")
def test_clusters_of_several_state_directories_do_not_disturb_each_other(apart: Apart, tmp_path: Path) -> None:
    before = apart.state()
    states = [tmp_path / name for name in ("one", "two")]

    def everywhere(*arguments: str) -> list[tuple[int, str]]:
        """Run a command for all clusters at once: exit codes and complaints."""
        running = [
            subprocess.Popen(
                [*apart.entering, *command_line(*(word.format(name=name) for word in arguments))],
                env={**environment(), STATE_VARIABLE: str(state)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for state in states
            for name in ("a", "b")
        ]
        errors = [each.communicate(timeout=60)[1] for each in running]
        return [(each.returncode, error) for each, error in zip(running, errors, strict=True)]

    assert everywhere("up", "two-peers", "--name", "{name}", "--backend", "netns") == [(0, "")] * 4
    assert len(apart.state()["namespaces"]) == len(before["namespaces"]) + 4 * 3
    assert everywhere("down", "{name}") == [(0, "")] * 4
    assert changes(before, apart.state()) == []
