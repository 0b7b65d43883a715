"""Scenarios over RDMA: those of its own, and reconnects, STANDBY and resets with and without lost packets.

Nodes run in the virtual machine, all scenarios by one program; what they did is judged here. Each scenario of RDMA
runs in its last case, every second one of the others with lost packets; ``MSGRLAB_RDMA=all`` runs everything.
"""

import json
import os
from dataclasses import astuple
from typing import Any

import pytest

from messenger.errors import LocalError
from tests.support.guests import PATIENCE_S, in_guest
from tests.toolkit.scenarios.rdma_guest import Play
from toolkit.checks.history import History
from toolkit.checks.invariants import check
from toolkit.checks.merge import in_order
from toolkit.errors import Unsupported
from toolkit.machine import vm
from toolkit.scenarios.catalogue import CATALOGUE, find
from toolkit.scenarios.runner import run_scenario

_EVERYTHING = os.environ.get("MSGRLAB_RDMA") == "all"
_OWN = [scenario for scenario in CATALOGUE.values() if scenario.backends == ("rdma",)]
_CORE = (
    ("LC-01", "TM05", "v2-crc"),
    ("LC-03", "X038 SESSION_RECONNECT WRITE", "v2-secure"),
    ("LS-08", "unread data", "v2-crc"),
    ("LS-04", "TM16", "v2-crc"),
    ("RS-01", "clients", "v2-crc"),
    ("RS-04", "X105", "v1"),
)
"""Reconnects, STANDBY and resets, which run on every backend."""
PLAYS = [
    Play(scenario.id, case.name)
    for scenario in _OWN
    for case in (scenario.cases if _EVERYTHING else scenario.cases[-1:])
] + [
    Play(*words, loss_percent)
    for number, words in enumerate(_CORE)
    for loss_percent in ((0.0, 1.0) if _EVERYTHING else (float(number % 2),))
]

in_machine = in_guest("pyverbs")


@pytest.fixture(scope="module")
def results(guest: vm.Machine) -> dict[str, dict[str, Any]]:
    assert guest.out is not None
    directory = guest.out / "scenarios"
    directory.mkdir(parents=True)
    wanted = json.dumps([astuple(play) for play in PLAYS])
    module = "tests.toolkit.scenarios.rdma_guest"
    done = guest.run_module(module, str(directory), wanted, timeout_s=PATIENCE_S)
    assert done.code == 0, done
    return {(line := json.loads(text))["name"]: line | {"in": directory} for text in done.stdout.splitlines()}


@in_machine
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
def test_scenario_passes_over_rdma(results: dict[str, dict[str, Any]], play: Play) -> None:
    found = results[play.name]
    assert (found["failure"], found["left"]) == ("", [])
    assert all(count > 0 for count in found["packets"].values()), found["packets"]
    history = History(in_order(History.load(found["in"] / f"{play.name}.ndjson")))
    provoked = find(play.scenario).provokes
    judged = [result for result in check(history) if result.id not in provoked]
    assert [violation.text for result in judged for violation in result.violations] == []


@in_machine
def test_a_raw_peer_and_faults_of_frames_are_refused(results: dict[str, dict[str, Any]]) -> None:
    assert results["refused"]["raw"] == "Unsupported: raw peer b: raw peers have no queue pairs"
    assert results["refused"]["cut"].endswith("frames of RDMA links pass no proxy")


# ---- without a machine


@pytest.mark.parametrize("backend", ["sim", "local", "netns"])
def test_scenarios_of_queue_pairs_are_refused_on_other_backends(backend: str) -> None:
    wanted = f"RD-10 cannot run on {backend}: faults of RDMA devices and queue pairs; it runs on rdma, vm"
    with pytest.raises(Unsupported, match=wanted):
        run_scenario(find("RD-10"), backend)


def test_scenarios_of_sockets_run_over_rdma_and_others_do_not() -> None:
    assert find("LC-01").runs_on("rdma")
    assert not find("LS-06").runs_on("rdma")
    assert [find(name).inside for name in ("LC-01", "RD-10", "LS-06")] == ["netns", "rdma", ""]


def test_without_devices_the_backend_is_refused_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.machine.rdma._NETLINK_RDMA", 31)  # a family that no kernel has
    with pytest.raises(
        LocalError, match="transport rdma: this kernel has no RDMA: --backend vm has a kernel with it"
    ):
        run_scenario(find("LC-01"), "rdma")
