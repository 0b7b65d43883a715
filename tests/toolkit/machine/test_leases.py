"""Leases: names, numbers and directories that no two clusters share, and locks that end with their holders."""

import subprocess
import sys
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.machine.labels import Label
from toolkit.machine.leases import Lease, clusters, lab_name, leases, sweep


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "state"))
    # Not those of the machine, where other tests have clusters.
    monkeypatch.setattr("toolkit.machine.numbers._NAMED", (tmp_path / "netns", tmp_path / "net"))
    monkeypatch.setattr("toolkit.machine.numbers._DIRECTORY", tmp_path / "machine" / "numbers")
    return tmp_path / "state"


def test_clusters_have_separate_numbers_and_directories(state: Path) -> None:
    first, second = Lease.take("one"), Lease.take("two")
    assert [lease.label.number for lease in (first, second)] == [0, 1]
    assert [lease.directory for lease in leases()] == [state / "one", state / "two"]
    assert first.journal.undo() == []
    assert [lease.label.name for lease in leases()] == ["two"]
    assert Lease.take("three").label.number == 0


def test_lease_skips_numbers_used_in_the_machine(tmp_path: Path) -> None:
    for place, name in (("netns", "ml0-a"), ("net", "ml2t0"), ("net", "eth0")):
        (tmp_path / place / name).mkdir(parents=True)
    assert [Lease.take(name).label.number for name in ("one", "two")] == [1, 3]


@pytest.mark.parametrize("name", ["\udcff", "two\nlines", "\x1b[2J"])
def test_state_directory_that_no_line_of_text_can_name_is_refused(
    name: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSGRLAB_STATE", f"{state}/{name}")
    for attempt in (leases, lambda: Lease.take("one")):
        with pytest.raises(LocalError, match=r"MSGRLAB_STATE = .*: give a path of printable characters"):
            attempt()
    assert not state.exists()


def test_a_name_is_taken_until_its_cluster_is_down() -> None:
    Lease.take("one")
    with pytest.raises(LocalError, match="msgrlab down one"):
        Lease.take("one")


@pytest.mark.parametrize("name", ["", "One", "1", "a/b", "..", "a" * 31, "a\n"])
def test_lease_refuses_invalid_names(name: str) -> None:
    with pytest.raises(LocalError, match="no name for a cluster"):
        Lease.take(name)


def test_unknown_lease_is_an_error_with_the_known_names() -> None:
    with pytest.raises(LocalError, match="none is up"):
        Lease.find("one")
    Lease.take("one")
    with pytest.raises(LocalError, match="there is one"):
        Lease.find("two")
    assert Lease.find("one").label == leases()[0].label


def test_clusters_lists_a_lab_only_after_its_process_ended() -> None:
    one, lab = Lease.take("one"), Lease.take(lab_name())
    with one.held(), lab.held():
        assert [lease.label for lease in clusters()] == [one.label]
    assert {lease.label for lease in clusters()} == {one.label, lab.label}


def test_lock_is_exclusive_and_ends_with_its_holder() -> None:
    lease = Lease.take("one")
    code = "import sys; from toolkit.machine.leases import Lease\n"
    code += "with Lease.find('one').held(): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lease.is_held
        with pytest.raises(LocalError, match="another process"), lease.held():
            pass
        holder.kill()
    assert not lease.is_held


def test_names_in_the_kernel_are_short_enough() -> None:
    label = Label("one", 999, "0" * 8)
    assert label.namespace("a") == "ml999-a"
    assert label.interface("v", 12) == "ml999v12"
    with pytest.raises(LocalError, match="too long"):
        label.interface("a-very-long-one")


def test_a_state_directory_that_cannot_be_made_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MSGRLAB_STATE", str(tmp_path / "file" / "below"))
    with pytest.raises(LocalError, match="MSGRLAB_STATE"):
        Lease.take("one")


def test_sweep_removes_only_unfinished_leases(state: Path) -> None:
    Lease.take("one")
    for name, file in ((".two.123", "label"), (".three.123", ""), (".four.123", "mine"), (".config.d", "label")):
        (state / name).mkdir()
        if file:
            (state / name / file).write_text("")
    sweep()
    assert sorted(path.name for path in state.iterdir()) == [".config.d", ".four.123", ".lock", "one"]
