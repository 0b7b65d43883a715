"""``msgrlab bench rdma``: in a machine with soft-RoCE, and its refusal elsewhere."""

import json

import pytest

from tests.support.clusters import state
from tests.support.guests import OTHERS, PATIENCE_S, in_guest
from toolkit.cli.main import run as msgrlab
from toolkit.machine import vm
from toolkit.machine.leases import leases

__all__ = ["state"]
_TINY = ("--patterns", "request", "--sizes", "4K", "--in-flight", "1", "--seconds", "0.01", "--json")
_NUMBERS = ("ops_per_s", "tcp_ops_per_s", "cpu_us_per_op", "tcp_cpu_us_per_op")


@in_guest("pyverbs", group=OTHERS)
def test_one_row_has_figures_of_rdma_and_of_tcp(guest: vm.Machine) -> None:
    words = ("bench", "rdma", *_TINY)
    done = guest.run_module("tests.toolkit.bench.command_guest", *words, timeout_s=PATIENCE_S)
    assert done.code == 0, done
    (row,) = json.loads(done.stdout)["rdma"]
    assert (row["pattern"], row["size"], row["in_flight"], row["mode"]) == ("request", 4096, 1, "crc")
    assert all(row[key] > 0 for key in _NUMBERS)
    ours, theirs = row["ops_per_s"], row["tcp_ops_per_s"]
    rounding = 0.5 / ours + 0.5 / theirs  # whole numbers, which are small on a slow machine
    assert row["ratio"] == pytest.approx(ours / theirs, rel=rounding, abs=0.002)
    left = guest.run(["ls", "/sys/class/infiniband", "/sys/class/net"], timeout_s=PATIENCE_S)
    assert not [name for name in left.stdout.split() if name.startswith("ml")]


def test_without_rdma_the_remedy_is_one_line(
    state: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("toolkit.machine.rdma._NETLINK_RDMA", 31)  # a family that no kernel has
    assert msgrlab(["bench", "rdma", *_TINY]) == 3
    remedy = "msgrlab: bench rdma: this kernel has no RDMA: msgrlab vm run -- CMD has a kernel with it"
    assert capsys.readouterr().err.strip().splitlines()[-1] == remedy
    assert list(leases()) == []


def test_cores_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["bench", "rdma", "--cores", "3"]) != 0
    assert "--cores: unknown '3'" in capsys.readouterr().err
