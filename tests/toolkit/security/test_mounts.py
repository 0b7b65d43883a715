"""A mount in a cluster's directory is unmounted or stays, and its files are never removed."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.users import OTHER_UID, as_user, needs_root, shared
from toolkit.machine.leases import STATE_VARIABLE, Lease
from toolkit.machine.mounts import mounts_below

__all__ = ["shared"]

pytestmark = needs_root

NAMES = ("plain", "with space", "Käse-キャ", "back\\slash", "tab\tnewline\n")


@pytest.fixture
def bind(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mount a directory with a file in it somewhere; returns the file."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_text("precious")
    with ExitStack() as undo:

        def mount(where: Path) -> Path:
            subprocess.run(["mount", "--bind", data, where], check=True)
            undo.callback(subprocess.run, ["umount", "--lazy", where], capture_output=True)
            return data / "file"

        yield mount


@pytest.mark.parametrize("name", NAMES)
def test_mounts_are_undone_whatever_their_names(
    name: str, bind: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / (name if name.isprintable() else "plain") / "state"))
    lease = Lease.take("pair")
    (lease.directory / name).mkdir()
    file = bind(lease.directory / name)
    assert mounts_below(lease.directory) == [str(lease.directory / name)]
    assert lease.journal.undo() == []
    assert file.read_text() == "precious"
    assert not lease.directory.exists()


def test_user_without_unmount_removes_nothing(
    bind: Callable[[Path], Path], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(shared / "state"))

    def take() -> None:
        (Lease.take("pair").directory / "m").mkdir()

    def undo() -> list[str]:
        return Lease.find("pair").journal.undo()

    as_user(OTHER_UID, take)
    mounted = shared / "state/pair/m"
    file = bind(mounted)
    file.parent.chmod(0o777)
    remains = as_user(OTHER_UID, undo)
    assert len(remains) == 1
    assert remains[0].startswith(f"mount {mounted} cannot be undone: ")
    assert "\n" not in remains[0]
    assert file.read_text() == "precious"
    assert (shared / "state/pair/journal").exists()
    subprocess.run(["umount", mounted], check=True)
    assert as_user(OTHER_UID, undo) == []
