"""The undo journal: written before, undone from the last one back, whatever ended the writer."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.machine.changes import Change, Processes, Tree, labelled_processes
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


def test_what_was_noted_is_read_back(tmp_path: Path) -> None:
    noted = [Tree("/nowhere/a b"), Processes("x.1")]
    journal = Journal(tmp_path)
    for change in noted:
        journal.note(change)
    assert Journal(tmp_path).changes() == noted


def test_a_line_that_was_cut_off_stands_for_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note(Tree("/nowhere"))
    with journal.path.open("ab") as out:
        out.write(b'{"change":"Proc')
    assert journal.changes() == [Tree("/nowhere")]


@pytest.mark.parametrize("line", ["noise", '{"change":"Nothing"}', '{"change":"Tree"}', '{"change":"Tree","x":1}'])
def test_a_line_of_somebody_else_is_one_clear_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "journal").write_text(line + "\n")
    with pytest.raises(LocalError, match="journal"):
        Journal(tmp_path).changes()


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


def test_undoing_spares_whoever_undoes(tmp_path: Path) -> None:
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


def test_the_last_change_is_undone_first_and_what_fails_is_told(tmp_path: Path) -> None:
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


def test_the_journal_stays_for_as_long_as_something_is_left(tmp_path: Path) -> None:
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
