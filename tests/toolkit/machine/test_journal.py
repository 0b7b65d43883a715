"""The undo journal: written before, undone from the last one back, whatever ended the writer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.machine.changes import Change, Mount, Processes, Tree, labelled_processes
from toolkit.machine.journal import Journal
from toolkit.machine.labels import PROCESS_VARIABLE


def _sleeper(label: str) -> subprocess.Popen[bytes]:
    """A process of a cluster, which has started another and does not listen to requests to end."""
    code = "import signal, subprocess, sys, time\n"
    code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    code += "subprocess.Popen(['sleep', '60'], start_new_session=True)\nprint('up', flush=True)\ntime.sleep(60)"
    program = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, PROCESS_VARIABLE: label}, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"up\n"
    return program


def test_journal_reads_back_its_changes(tmp_path: Path) -> None:
    noted = [Tree("/nowhere/a b"), Processes("x.1")]
    journal = Journal(tmp_path)
    for change in noted:
        journal.note(change)
    assert Journal(tmp_path).changes() == noted


def test_journal_ignores_a_truncated_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note(Tree("/nowhere"))
    with journal.path.open("ab") as out:
        out.write(b'{"change":"Proc')
    assert journal.changes() == [Tree("/nowhere")]


NO_LINES = [
    *("noise", "[]", "7", "null", "\udcff"),
    *('{"change":"Nothing"}', '{"change":"Tree"}', '{"change":"Tree","x":"1"}', '{"change":"Tree","path":1}'),
    *('{"change":["Tree"],"path":"x"}', '{"change":"Processes","label":{}}'),
    pytest.param("[" * 100_000, id="deep"),
]


@pytest.mark.parametrize("line", NO_LINES)
def test_a_line_that_is_damaged_is_one_clear_error_and_the_others_are_undone(tmp_path: Path, line: str) -> None:
    directory = tmp_path / "pair"
    (directory / "node").mkdir(parents=True)
    journal = Journal(directory)
    journal.note(Tree(str(directory)))
    with journal.path.open("ab") as out:
        out.write(os.fsencode(line) + b"\n")
    journal.note(Tree(str(directory / "node")))
    with pytest.raises(LocalError, match=r"journal:2: .*by hand"):
        journal.changes()
    (remains,) = journal.undo()
    assert "journal:2: " in remains
    assert not (directory / "node").exists()
    assert journal.path.exists()


def test_undo_removes_no_tree_or_mount_outside_the_cluster(tmp_path: Path) -> None:
    directory, outside = tmp_path / "pair", tmp_path / "pairs"
    for path in (directory, outside):
        path.mkdir()
    (directory / "link").symlink_to(tmp_path)
    journal = Journal(directory)
    for path in (outside, directory / ".." / "pairs", directory / "link" / "pairs", tmp_path):
        journal.note(Tree(str(path)))
    journal.note(Mount("/"))
    remains = journal.undo()
    assert len(remains) == 5
    assert all("is not below" in line for line in remains)
    assert outside.exists()
    assert directory.exists()


def test_an_interrupted_removal_is_found_and_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "pair"
    directory.mkdir()
    journal = Journal(directory)
    journal.note(Tree(str(directory)))
    (directory / "file").write_text("")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("toolkit.machine.trees.os.unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.undo()
    # Its name is free, and the journal is there for as long as anything else is.
    assert [path.name for path in tmp_path.iterdir()] == [".pair.removed"]
    assert (tmp_path / ".pair.removed" / "journal").exists()
    directory.mkdir()
    (directory / "another").write_text("")
    assert Journal(directory).undo() == []
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]


def test_a_journal_that_was_removed_is_undone_by_its_writer(tmp_path: Path) -> None:
    label = f"lost.{os.getpid()}"
    directory = tmp_path / "pair"
    directory.mkdir()
    journal = Journal(directory)
    journal.note(Processes(label))
    with _sleeper(label) as program:
        journal.path.unlink()
        directory.rmdir()
        assert journal.undo() == []
        assert program.wait() == -signal.SIGKILL


def test_undoing_ends_processes_and_what_they_started(tmp_path: Path) -> None:
    label = f"test.{os.getpid()}"
    with _sleeper(label) as program:
        journal = Journal(tmp_path)
        journal.note(Processes(label))
        assert len(list(labelled_processes(label))) == 2
        assert journal.undo() == []
        assert list(labelled_processes(label)) == []
        assert program.wait() == -signal.SIGKILL
    assert journal.undo() == []


def test_process_that_executes_programs_all_the_time_is_found(tmp_path: Path) -> None:
    label = f"busy.{os.getpid()}"
    loop = tmp_path / "loop"
    loop.write_text('#!/bin/sh\nexec "$0"\n')
    loop.chmod(0o755)
    with subprocess.Popen([loop], env={**os.environ, PROCESS_VARIABLE: label}) as program:
        found = [list(labelled_processes(label)) for _ in range(200)]
        program.kill()
    assert found == [[program.pid]] * 200


def test_undo_spares_its_own_process(tmp_path: Path) -> None:
    """``msgrlab down`` may be typed in a shell on a node."""
    label = f"spare.{os.getpid()}"
    code = f"from toolkit.machine.changes import Processes; Processes({label!r}).undo(); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, PROCESS_VARIABLE: label},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "alive\n"


def test_last_change_is_undone_first_and_failures_are_reported(tmp_path: Path) -> None:
    undone: list[str] = []

    class Step(Change):
        def __init__(self, name: str) -> None:
            object.__setattr__(self, "name", name)

        def undo(self) -> None:
            undone.append(self.name)
            if self.name == "second":
                raise LocalError("second: it will not go")

        def as_json(self) -> dict[str, str]:
            return {"change": "Step", "name": self.name}

    journal = Journal(tmp_path)
    for name in ("first", "second", "third"):
        journal.note(Step(name))
    try:
        assert journal.undo() == ["second: it will not go"]
    finally:
        del Change.KINDS["Step"]
    assert undone == ["third", "second", "first"]


def test_journal_remains_until_every_change_is_undone(tmp_path: Path) -> None:
    stuck = [True]

    class Stuck(Change):
        def undo(self) -> None:
            if stuck[0]:
                raise LocalError("it will not go")

    directory = tmp_path / "cluster"
    directory.mkdir()
    journal = Journal(directory)
    journal.note(Tree(str(directory)))
    journal.note(Stuck())
    try:
        assert journal.undo() == ["it will not go"]
        assert journal.path.exists()
        stuck[0] = False
        assert journal.undo() == []
    finally:
        del Change.KINDS["Stuck"]
    assert not directory.exists()


def test_a_tree_is_removed_and_may_be_gone_already(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "file").write_text("x")
    Tree(str(tree)).undo()
    Tree(str(tree)).undo()
    assert not tree.exists()


def test_directory_is_removed_under_its_linked_name(tmp_path: Path) -> None:
    (tmp_path / "state" / "pair" / "node").mkdir(parents=True)
    (tmp_path / "link").symlink_to("state")
    Journal(tmp_path / "link" / "pair").note(Tree(str(tmp_path / "link" / "pair")))
    assert Journal(tmp_path / "state" / "pair").undo() == []
    assert list((tmp_path / "state").iterdir()) == []
