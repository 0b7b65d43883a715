"""A cluster that does not come up: its logs are kept, and the lines that show why are at hand."""

from pathlib import Path
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.clusters import answer_of, done, msgrlab, processes_of, state
from toolkit.cluster import NotUp, up
from toolkit.cluster.failure import notable_lines
from toolkit.cluster.spec import ClusterSpec
from toolkit.machine.leases import Lease, leases

__all__ = ["state"]

real = pytest.mark.needs("ceph-mon", "ceph-osd", "ceph")
ELSEWHERE = "192.0.2.77"
"""An address that this machine does not have (RFC 5737)."""


def broken(**changes: Any) -> ClusterSpec:
    """A monitor, and an OSD that cannot have its address."""
    options = {"public_addr": ELSEWHERE, "ms_bind_retry_count": 0}
    nodes = {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd", "options": options}}
    return ClusterSpec.model_validate({"name": "broken", "nodes": nodes, **changes})


@real
def test_the_exception_has_the_lines_that_show_why_and_the_logs(state: Path, tmp_path: Path) -> None:
    with pytest.raises(NotUp) as caught, up(broken()):
        pass
    error = caught.value
    assert isinstance(error, LocalError)
    assert any(line.startswith("osd/osd.0.out: ") and "unable to bind" in line for line in error.lines)
    assert all(line in str(error) for line in error.lines)
    assert str(error.logs) in str(error)
    assert error.logs.parent == tmp_path
    assert (error.logs / "osd" / "osd.0.log").stat().st_size > 100
    assert (error.logs / "mon" / "mon.mon.log").stat().st_size > 1000
    assert list(error.logs.rglob("*key*")) == []
    assert leases() == []


@real
def test_failed_up_keeps_logs_in_the_given_directory(state: Path, tmp_path: Path) -> None:
    with pytest.raises(NotUp) as caught, up(broken(), keep=tmp_path / "kept"):
        pass
    assert caught.value.logs == tmp_path / "kept"
    assert (tmp_path / "kept" / "osd" / "osd.0.log").is_file()


@pytest.mark.needs("docker-images")
@pytest.mark.usefixtures("state")
def test_logs_of_containers_outlive_them() -> None:
    with pytest.raises(NotUp) as caught, up(broken(backend="docker", ceph={"release": "nautilus"})):
        pass
    assert any(line.startswith("osd/osd.0.") and "bind" in line for line in caught.value.lines)
    assert (caught.value.logs / "osd" / "osd.0.log").stat().st_size > 100


@real
@pytest.mark.usefixtures("state")
def test_up_prints_the_lines_and_keep_keeps_the_cluster(tmp_path: Path) -> None:
    spec = tmp_path / "broken.yaml"
    spec.write_text(broken().model_dump_json(by_alias=True, exclude_defaults=True))
    failed = msgrlab("up", str(spec))
    assert failed.returncode == 2
    assert "unable to bind" in failed.stderr
    logs = Path(failed.stderr.strip().rpartition("all logs are in ")[2])
    assert (logs / "osd" / "osd.0.log").is_file()
    assert leases() == []

    kept = msgrlab("up", str(spec), "--keep")
    assert kept.returncode == 2
    assert "msgrlab status broken" in kept.stderr
    [cluster] = answer_of("status", "--json")["clusters"]
    assert {name: node["state"] for name, node in cluster["nodes"].items()} == {"mon": "up", "osd": "dead"}
    label = str(Lease.find("broken").label)
    assert done("down") == "broken: down\n"
    assert processes_of(label) == []


def test_lines_that_show_why(tmp_path: Path) -> None:
    (tmp_path / "mon").mkdir()
    (tmp_path / "osd").mkdir()
    (tmp_path / "mon" / "mon.a.log").write_text("an error of another node\n")
    dull = "2026-01-01T00:00:00.000+0000 7f00  1 -- 10.0.0.1:0/1 --> 10.0.0.2:0/2 -- error (1) -- 0x0 con 0x0\n"
    (tmp_path / "osd" / "osd.0.log").write_text(
        "starting\n" + dull * 3 + "2026-01-01T00:00:00.000+0000 7f00 -1 osd.0 is full\n" + dull * 3
    )
    (tmp_path / "osd" / "osd.0.out").write_text("2026-01-01T00:00:00.000+0000 7f00 -1 osd.0 is full\n")
    assert notable_lines(tmp_path, ["osd"]) == [
        "osd/osd.0.out: 2026-01-01T00:00:00.000+0000 7f00 -1 osd.0 is full"
    ], "the same line of another file is not repeated"
