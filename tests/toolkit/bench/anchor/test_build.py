"""Building the program, without Debian's archive; ``.ci/anchor`` builds it."""

import os
from pathlib import Path

import pytest

from tests.support.users import needs_root
from toolkit.bench.anchor.build import build, version
from toolkit.cli.main import run as msgrlab
from toolkit.cluster.images import archive
from toolkit.cluster.images.archive import Archive


def test_build_announces_downloads_and_leaves_only_a_log_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _: "/x")
    monkeypatch.setattr(archive, "_DEBOOTSTRAP", ("sh", "-c", "echo no such mirror; exit 1"))
    keys = tmp_path / "keys.gpg"
    keys.touch()
    words = ["bench", "anchor", str(tmp_path / "x/anchor"), "--mirror", "http://mirror", "--keyring", str(keys)]
    assert msgrlab(words) == 2
    announced, error = capsys.readouterr().err.splitlines()
    assert announced.startswith(
        f"building msgr-anchor in {tmp_path}/x/anchor: debootstrap and apt download g++, librados2,"
    )
    assert f"source of Ceph in Debian sid from http://mirror, verify them with {keys}" in announced
    assert error == f"msgrlab: sh ended with exit code 1; what was said is in {tmp_path}/x/anchor.log"
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [".anchor.lock", "anchor.log"]


@needs_root
@pytest.mark.parametrize(("is_file", "words"), [(True, "is not a directory"), (False, "contains other files")])
def test_build_replaces_no_foreign_file_or_directory(
    *,
    is_file: bool,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/x")
    mine = tmp_path / "mine"
    kept = mine if is_file else mine / "file"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    assert msgrlab(["bench", "anchor", str(mine)]) == 2
    assert words in capsys.readouterr().err
    assert kept.read_text() == "mine"


@needs_root
def test_build_reuses_the_downloads_of_an_earlier_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "anchor"
    (directory / "root/build").mkdir(parents=True)
    (directory / "root/build/of-version").write_text("20.2.4-1\n")
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr("shutil.which", lambda _: "/x")
    monkeypatch.setattr("toolkit.cluster.images.work.Work.run", lambda _, *command: ran.append(command))
    program = build(directory, pytest.fail, archive=Archive("http://mirror"))
    assert [command[:2] for command in ran] == [("chroot", str(directory / "root"))]
    assert (program, version(directory)) == (directory / "msgr-anchor", "20.2.4-1")
    assert os.access(program, os.X_OK)
    assert "ms_async_op_threads" in (directory / "root/build/msgr-anchor.cc").read_text()
