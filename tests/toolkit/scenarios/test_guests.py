"""Scenarios on the backend ``vm``: they run on namespaces of a guest, and come back as from other backends."""

import json
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.guests import Guests, in_guest
from toolkit.errors import Unsupported
from toolkit.machine import vm
from toolkit.scenarios.catalogue import find
from toolkit.scenarios.guests import kept
from toolkit.scenarios.runner import run_scenario, save_artefacts

FILE = """\
from toolkit import scenario


@scenario(cases={"few": {"count": 2}, "more": {"count": 3}}, backends=["netns"])
def arrive(lab, count):
    '''Messages arrive.'''
    lab.two()
    lab.connect("a", "b")
    lab.delay("a", "b", 0.02)
    lab.send("a", "b", count)
    lab.expect_delivered("a", "b", count)
    assert count == 2, "there are more"


@scenario(backends=["sim", "local"])
def elsewhere(lab):
    '''It has no place in a guest.'''


@scenario(backends=["netns"])
def parted(lab):
    '''Messages wait at a partition.'''
    lab.two()
    lab.connect("a", "b")
    lab.partition("a", "b")
    lab.send("a", "b", 1)
    lab.heal()
    lab.expect_delivered("a", "b", 1)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(FILE)
    return path


@in_guest("nft")
def test_runs_in_a_guest_return_history_failures_and_visits(
    fast_guest: vm.Machine, file: Path, tmp_path: Path
) -> None:
    few, more = (find(f"{file}::arrive[{case}]") for case in ("few", "more"))
    with kept(fast_guest):
        passed, failed = run_scenario(few, "vm", seed=4), run_scenario(more, "vm")
    assert passed.passed, passed.complaints
    assert sum(record.kind == "deliver" for record in passed.history) == 2
    assert passed.visited
    assert "mine.py::arrive[few]' --backend vm --mode crc --seed 4" in passed.replay_command
    assert failed.complaints == [f"{file}:12: AssertionError: there are more"]
    save_artefacts(failed, tmp_path / "kept")
    assert json.loads((tmp_path / "kept/outcome.json").read_text())["backend"] == "vm"


@in_guest("nft", "uml")
def test_a_run_that_needs_what_a_kernel_lacks_is_done_on_the_next_one(guests: Guests, file: Path) -> None:
    parted = find(f"{file}::parted")
    lacking, complete = guests.with_kernel("uml"), guests.with_kernel("bookworm")
    with (
        kept(lacking),
        pytest.raises(Unsupported, match=r"the nftables of Linux 7.* lack what"),
    ):
        run_scenario(parted, "vm")
    with kept(lacking, complete):
        outcome = run_scenario(parted, "vm")
    assert outcome.passed, outcome.complaints


def test_scenarios_that_do_not_run_on_namespaces_are_refused(file: Path) -> None:
    with pytest.raises(Unsupported, match=r"elsewhere cannot run on vm: .*; it runs on sim, local"):
        run_scenario(find(f"{file}::elsewhere"), "vm")
    with pytest.raises(LocalError, match="unknown backend 'wm'"):
        run_scenario(find("reconnect"), "wm")
