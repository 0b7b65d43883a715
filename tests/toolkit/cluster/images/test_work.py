"""Making an image: logs, one at a time, nothing half-made."""

import multiprocessing
import time

import pytest

from messenger.errors import LocalError
from toolkit.cluster.images.work import Work, alone, whole


def test_log_contains_output_of_programs(tmp_path):
    reported = []
    work = Work(tmp_path / "log", reported.append)
    assert work.run("sh", "-c", "echo out; echo err >&2") == "out\nerr\n"
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["out", "err"]
    assert reported[1:] == ["out", "err"]


def test_failed_program_names_its_log(tmp_path):
    work = Work(tmp_path / "log")
    with pytest.raises(LocalError, match=r"sh ended with exit code 3; what was said is in .*/log$"):
        work.run("sh", "-c", "echo why; exit 3")
    assert "why" in (tmp_path / "log").read_text()


def test_program_ends_with_its_caller(tmp_path):
    def interrupt(line):
        if line == "begun":
            raise KeyboardInterrupt

    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Work(tmp_path / "log", interrupt).run("sh", "-c", "echo begun; exec sleep 60")
    assert time.monotonic() - began_s < 30


@pytest.mark.parametrize("error", [LocalError, KeyboardInterrupt])
def test_failed_build_leaves_no_files(tmp_path, error):
    with pytest.raises(error), whole(tmp_path / "image") as unfinished:
        raise error((unfinished / "file").write_text("half"))
    assert list(tmp_path.iterdir()) == []


def test_build_replaces_the_remains_of_a_crash(tmp_path):
    for name in (".image.unfinished", "image"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old").write_text("old")
    with whole(tmp_path / "image") as unfinished:
        (unfinished / "new").write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["image", "new"]


def _hold(path, held, release):
    with alone(path, lambda _: None):
        held.set()
        release.wait()


def test_others_wait_with_a_note(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path / "image", held, release))
    other.start()
    assert held.wait(30)
    line = []

    def on_wait(what):
        line.append(what)
        release.set()

    with alone(tmp_path / "image", on_wait):
        assert line == ["image is being made already: waiting"]
    other.join()


def test_unwritable_root_is_an_error_that_names_the_option(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LocalError, match=r"file: .*; --root names another directory"),
        alone(tmp_path / "file/x", print),
    ):
        pass
