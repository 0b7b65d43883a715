"""Scenarios of this project, and some of the catalogue, as tests."""

from collections.abc import Callable

import pytest

from toolkit.pytest_plugin import Runs


@pytest.mark.scenarios("own", ways="all", seeds=range(2))
def test_own_scenarios(msgrlab_scenario: Callable[[], object]) -> None:
    msgrlab_scenario()


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_a_cut_link_is_resumed(msgrlab_run: Runs, mode: str) -> None:
    run = msgrlab_run("reconnect", mode=mode, cuts=["a:MESSAGE:3:10"])
    assert run.history.of("cut")[0]["at"]["byte"] == 10


def test_a_seed_repeats_a_run(msgrlab_run: Runs) -> None:
    assert msgrlab_run("standby", seed=3).history == msgrlab_run("standby", seed=3).history
