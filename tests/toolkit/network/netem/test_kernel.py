"""netem itself, in a machine whose kernel has it: what is set is read back, and happens."""

import json
import re
from statistics import median
from typing import Any

import pytest

from tests.support.guests import OTHERS, PATIENCE_S, marks
from toolkit.machine import vm
from toolkit.network.state import LinkState

pytestmark = marks(group=OTHERS)

STATES = {
    "delay 30ms": 20,
    "delay 40ms ± 5ms normal correlation 25%": 100,
    "loss 30%": 200,
    "loss to-bad 10% to-good 40% in-bad 90% in-good 1%": 1000,
    "loss p13 5% p31 60% p32 20% p23 30% p14 1%": 0,
    "duplicate 40% correlation 10%": 100,
    "delay 300ms, reorder 100% gap 5": 50,
    "corrupt 100% correlation 12.5%": 50,
    "rate 400kbit": 20,
    "slot 20ms..30ms packets 50": 20,
    "rate 100gbit, limit 50": 0,
    "delay 5000.5ms ± 1500ms pareto, loss 1% correlation 5%, slot 3ms bytes 4000": 0,
    "delay 0.000001ms": 0,
    "no impairments": 20,
}


@pytest.fixture(scope="module")
def results(fast_guest: vm.Machine) -> dict[str, dict[str, Any]]:
    """Return the results by the text of the state, or by the name of the first value."""
    states = json.dumps([list(STATES), STATES])
    done = fast_guest.run_module("tests.toolkit.network.netem.guest", states, timeout_s=PATIENCE_S)
    assert done.code == 0, done
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one.get("set", next(iter(one))): one for one in found}


def test_netem_is_found_and_used(results: dict[str, dict[str, Any]]) -> None:
    assert results["netem"] == {"netem": True}
    assert results["way"] == {"way": "netem", "describe": "netem, in the kernel", "backwards": "no impairments"}


@pytest.mark.parametrize("text", STATES)
def test_kernel_returns_the_link_state_that_was_set(results: dict[str, dict[str, Any]], text: str) -> None:
    assert LinkState.from_text(results[text]["read"]) == LinkState.from_text(text)


def test_kernel_applies_delays(results: dict[str, dict[str, Any]]) -> None:
    assert min(results["delay 30ms"]["delays_ms"]) >= 30
    found = results["delay 40ms ± 5ms normal correlation 25%"]["delays_ms"]
    assert 38 < median(found) < 60
    assert min(found) < 38
    assert median(results["no impairments"]["delays_ms"]) < 10


def test_kernel_applies_losses(results: dict[str, dict[str, Any]]) -> None:
    # Mean and standard deviation are 60 and 6.5, and 188 and 20.4 because losses come in bursts: five of these.
    for text, least, most in (
        ("loss 30%", 27, 93),
        ("loss to-bad 10% to-good 40% in-bad 90% in-good 1%", 86, 290),
    ):
        found = results[text]
        assert found["lost"] == STATES[text] - len(found["numbers"])
        assert least < found["lost"] < most
    assert results["no impairments"]["numbers"] == list(range(20))


def test_kernel_applies_duplicates_corruption_and_reordering(results: dict[str, dict[str, Any]]) -> None:
    numbers = results["duplicate 40% correlation 10%"]["numbers"]
    assert set(numbers) == set(range(100))
    assert 110 < len(numbers) < 180
    assert len(results["corrupt 100% correlation 12.5%"]["numbers"]) < 20
    numbers = results["delay 300ms, reorder 100% gap 5"]["numbers"]
    assert sorted(numbers) == list(range(50))
    assert numbers.index(4) < numbers.index(0)


def test_kernel_applies_rates_and_slots(results: dict[str, dict[str, Any]]) -> None:
    # A datagram of 200 bytes takes 242 on the wire, which takes 4.84 ms.
    assert min(results["rate 400kbit"]["delays_ms"]) >= 4.84
    assert max(results["slot 20ms..30ms packets 50"]["delays_ms"]) >= 20


def test_kernel_refuses_or_keeps_seeds(results: dict[str, dict[str, Any]]) -> None:
    assert results["seed"]["seed"] == 5 or "since Linux 6.5" in results["seed"]["seed"]


def test_each_pair_of_peers_has_its_own_link_state(results: dict[str, dict[str, Any]]) -> None:
    assert min(results["delays_ms"]["delays_ms"]) >= 30
    assert (results["delays_ms"]["to_c"], results["delays_ms"]["from_b"]) == (0, 10)
    assert results["to_b"] == {"to_b": 10, "to_c": 10, "read": "delay 5ms"}
    assert results["healed"] == {"healed": ["delay 30ms", "loss 100%"]}


def test_state_refused_by_the_kernel_changes_nothing(results: dict[str, dict[str, Any]]) -> None:
    found = results["duplicates"]
    if found["duplicates"] != 20:
        assert "MSGRLAB_LINKS=wire" in found["duplicates"]
        assert found["read"] == "delay 5ms"


def test_the_wire_impairs_what_a_virtual_machine_sends(results: dict[str, dict[str, Any]]) -> None:
    found = results["machine"]
    assert re.fullmatch(
        r"netem, in the kernel; from c: the wire, in user space \(process \d+\)(, for all .*)?", found["machine"]
    )
    assert len(found["delays_ms"]) == 15
    assert min(found["delays_ms"]) >= 30
    assert (found["lost"], found["clear"], found["passed"]) == (0, 5, [5, 5, 5, 5])
    assert found["read"] == ["delay 30ms"] * 3 + ["loss 100%"]
    assert results["machine_healed"] == {"machine_healed": ["delay 30ms"] * 4}
    assert results["machine_left"] == {"machine_left": [5] * 4}


def test_closing_leaves_no_queue(results: dict[str, dict[str, Any]]) -> None:
    assert set(results["left"]["left"]) == {"noqueue"}
