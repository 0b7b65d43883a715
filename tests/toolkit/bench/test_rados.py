"""``msgrlab bench rados`` with few objects. No test depends on speed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.clusters import state
from toolkit.bench.rados.load import Load
from toolkit.bench.rados.measure import default_count
from toolkit.cli.main import run as msgrlab
from toolkit.machine import interpreters

__all__ = ["state"]

ROW = ["name", "side", "mode", "size", "in_flight", "count", "ops_per_s", "ceph_ops_per_s", "rate_ratio"]
ROW += ["cpu_us_per_op", "ceph_cpu_us_per_op", "cpu_ratio", "load"]


@pytest.mark.needs("ceph-osd", "ceph-mon", "ceph")
@pytest.mark.usefixtures("state")
def test_clients_and_osds_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "rados.json"
    few = ["--sizes", "4K", "--modes", "secure", "--count", "40", "--turns", "1", "--in-flight", "4"]
    assert msgrlab(["bench", "rados", *few, "--json", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert out.read_text(encoding="utf-8") == printed
    result = json.loads(printed)
    client, osd = result["rados"]
    assert (result["turns"], list(client)) == (1, ROW)
    assert (client["name"], osd["name"]) == ("client secure 4K x4", "osd secure 4K x4")
    for row in (client, osd):
        assert (row["size"], row["count"]) == (4096, 40)
        assert min(row["ops_per_s"], row["ceph_ops_per_s"], row["cpu_us_per_op"]) > 0
        assert row["rate_ratio"]["median"] == pytest.approx(row["ops_per_s"] / row["ceph_ops_per_s"], rel=0.01)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--sides", "mon"], "--sides: unknown 'mon'; known: client, osd"),
        (["--sizes", "4G"], "--sizes: '4G' is not a size"),
        (["--modes", "crc,none"], "--modes: unknown 'none'; known: crc, secure"),
        (["--sizes", "4M", "--count", "1000"], "--count 1000: objects of 4194304 bytes exceed 512 MiB"),
    ],
)
def test_bad_options_are_one_line(options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["bench", "rados", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_failed_login_reports_its_cause(tmp_path: Path) -> None:
    keyring = tmp_path / "keyring"
    keyring.write_text("[client.other]\n\tkey = AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n")
    load = Load(addr="v2:127.0.0.1:1", keyring=str(keyring), mode="crc", pool="p", size=1, in_flight=1, count=1)
    done = subprocess.run(
        [*interpreters.PYTHON, "-m", "toolkit.bench.rados.load"],
        input=load.as_json(),
        capture_output=True,
        text=True,
        env=interpreters.environment(),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "client.admin" in done.stderr


def test_the_objects_of_a_turn_fit_into_memory() -> None:
    assert [default_count(size) for size in (64, 4 << 10, 4 << 20, 64 << 20)] == [5000, 5000, 48, 16]
