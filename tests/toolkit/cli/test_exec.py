"""``msgrlab exec --release``: unmodified programs of a Ceph release with a running cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import done, msgrlab, state
from toolkit.cli.main import run
from toolkit.cluster.chroot import IMAGES_VARIABLE, images_root
from toolkit.cluster.images import version

__all__ = ["state"]

pytestmark = pytest.mark.needs("ceph-image-reef")

SCRIPT = """
import os, rados, sys
with rados.Rados(conffile="") as cluster, cluster.open_ioctx("objects") as ioctx:
    release = open("/etc/msgrlab-image").read()
    print(ioctx.read(sys.argv[1]).decode(), os.getcwd(), os.environ.get("PYTHONPATH"), release)
"""


@pytest.fixture
def cluster(state: Path) -> Iterator[Path]:
    """An embedded cluster with one OSD; the directory of its monitor."""
    done("up", "embedded", "--set", "nodes.osd.count=1", "--set", "ceph.pools.rbd=1")
    yield state / "embedded" / "mon"
    done("down", "embedded")


def test_programs_of_a_release_use_the_cluster(cluster: Path, tmp_path: Path) -> None:
    done("exec", "mon", "--release=reef", "--", "rados", "-p", "objects", "put", "x", "-", stdin="hello")
    script = tmp_path / "its" / "script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    shared = ("--share", str(script.parent))
    output = done(
        "exec", "mon", *shared, "--release", "reef", "--name", "embedded", "--", "python3", str(script), "x"
    )
    assert output.split() == ["hello", str(cluster), "None", version(images_root() / "ceph-reef")]
    inside = msgrlab("exec", "mon", "--release", "reef", "--", "sh", "-c", f"test ! -e {script}; exit 7$?")
    assert inside.returncode == 70


@pytest.mark.usefixtures("state")
def test_exec_reports_errors_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*options: str) -> tuple[int, str]:
        code = run(["exec", *options, "mon", "--", "true"])
        (line,) = capsys.readouterr().err.splitlines()
        return code, line

    known = "known: nautilus, pacific, reef, tentacle"
    of_reef = ("--release", "reef", "--share")
    for options, expected in (
        (("--release", "squid"), f"no image of Ceph 'squid'; {known}"),
        ((*of_reef, "/usr"), "/usr: it cannot be shared: programs find that of their image"),
        ((*of_reef, "its"), "its: give a directory to share as an absolute path"),
        ((*of_reef, "/nosuch"), "/nosuch: there is no such directory"),
        (("--share", str(tmp_path)), "exec --share needs --release"),
    ):
        code, line = refusal(*options)
        assert code == 2
        assert expected in line
    monkeypatch.setenv(IMAGES_VARIABLE, str(tmp_path / "none"))
    code, line = refusal("--release", "reef")
    assert code == 3
    assert line.endswith("msgrlab images build ceph:reef --directory")
