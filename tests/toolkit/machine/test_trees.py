"""Removing trees: everything that is theirs, and nothing else."""

import os
import subprocess
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.machine import trees
from toolkit.machine.trees import remove_tree


def test_remove_tree_removes_links_fifos_and_odd_names(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    tree = tmp_path / "tree"
    for depth in range(3):
        (tree / "/".join("abc"[: depth + 1])).mkdir(parents=True)
    (tree / "a" / "file").write_text("goes")
    (tree / "link").symlink_to(outside)
    (tree / "a" / "dangling").symlink_to("nowhere")
    os.mkfifo(tree / "a" / "fifo")
    (tree / os.fsdecode(b"not \xff text")).mkdir()
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "file").read_text() == "stays"


def test_a_link_in_the_place_of_a_tree_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree").symlink_to("outside")
    with pytest.raises(LocalError, match="tree: "):
        remove_tree(tmp_path / "tree")
    assert (tmp_path / "outside").exists()


def test_a_tree_may_be_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    remove_tree(tmp_path / ("d" * 200))
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_named_are_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("journal", "a", "z"):
        (tmp_path / name).write_text("")
    order: list[str] = []
    unlink = os.unlink

    def noting(name: str, **where: int) -> None:
        order.append(name)
        unlink(name, **where)

    monkeypatch.setattr(trees.os, "unlink", noting)
    remove_tree(tmp_path, last=("label", "journal"))
    assert order[-2:] == ["label", "journal"]
    assert not tmp_path.exists()


def test_remove_tree_ignores_files_that_vanish_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file that is missing says nothing of the others."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(10):
        (tree / str(number)).write_text("")
    unlink = os.unlink

    def late(name: str, **where: int) -> None:
        unlink(name, **where)
        if name == "5":
            raise FileNotFoundError(2, "No such file or directory", name)

    monkeypatch.setattr(trees.os, "unlink", late)
    remove_tree(tree)
    assert not tree.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_that_comes_while_a_tree_is_removed_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, data = tmp_path / "tree", tmp_path / "data"
    (tree / "m").mkdir(parents=True)
    data.mkdir()
    (data / "file").write_text("precious")
    monkeypatch.setattr(trees, "mounts_below", lambda _path: [])
    subprocess.run(["mount", "--bind", data, tree / "m"], check=True)
    try:
        with pytest.raises(LocalError, match="umount"):
            remove_tree(tree)
    finally:
        subprocess.run(["umount", tree / "m"], check=True)
    assert (data / "file").read_text() == "precious"


def test_remove_tree_names_the_file_that_it_cannot_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(trees.os, "unlink", refuse)
    with pytest.raises(LocalError, match=r"tree/file: Operation not permitted"):
        remove_tree(tmp_path / "tree")
