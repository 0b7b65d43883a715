"""``msgrlab bench links``: in a machine whose kernel has netem, and its refusal elsewhere."""

import json
from typing import Any

import pytest

from tests.support.guests import OTHERS, PATIENCE_S, in_guest
from toolkit.bench.links.expected import SIGMAS, Expected
from toolkit.bench.links.measure import Found, LinkResult
from toolkit.cli.main import run as msgrlab
from toolkit.machine import vm
from toolkit.network.netem import kernel

_KEYS = "loss 5%,duplicate 10%,p13,seed"
_SIGMAS = 5 / SIGMAS
"""Part of the range of three standard deviations that a value may be away, so that chance fails no test."""


@in_guest(group=OTHERS)
def test_netem_and_the_wire_do_what_was_asked(fast_guest: vm.Machine) -> None:
    words = ("bench", "links", "--packets", "1000", "--keys", _KEYS, "--json")
    done = fast_guest.run_module("tests.toolkit.bench.command_guest", *words, timeout_s=PATIENCE_S)
    assert done.code == 0, done
    rows = {row["asked"]: row for row in json.loads(done.stdout)["links"]}
    seeded = rows.pop("loss 30%, seed 7")
    assert len(rows) == 3
    for row in rows.values():
        assert (row["kernel_as_asked"], row["wire_as_asked"]) == (True, True), row
        assert all(_is_near(row, row[who]["value"]) for who in ("kernel", "wire")), row
    assert _is_near(seeded, seeded["wire"]["value"])
    assert seeded["kernel_as_asked"] or "since Linux 6.5" in seeded["kernel"]["problem"]


def _is_near(row: dict[str, Any], value: float) -> bool:
    expected = row["expected"]
    return abs(value - expected["value"]) <= _SIGMAS * (expected["most"] - expected["value"])


def _row(kernel: Found, wire: Found, expected: Expected | None = None, what: str = "lost %") -> LinkResult:
    return LinkResult("loss 5%", what, 1000, expected, kernel, wire)


def test_values_outside_the_range_are_not_met() -> None:
    row = _row(Found("loss 5%", 5.5), Found("loss 4%", 8.0), Expected(5.0, 4.0, 6.0))
    assert (row.is_met(row.kernel), row.is_met(row.wire)) == (True, False)
    assert (row.is_as_asked(row.kernel), row.is_as_asked(row.wire)) == (True, False)


@pytest.mark.parametrize("what", ["lost %", "delay p90 ms"])
def test_without_an_expectation_both_have_to_be_alike(what: str) -> None:
    alike = _row(Found("loss 5%", 6.5), Found("loss 5%", 6.3), what=what)
    assert (alike.is_met(alike.kernel), alike.is_met(alike.wire)) == (True, True)
    apart = _row(Found("loss 5%", 6.5), Found("loss 5%", 25.0), what=what)
    assert (apart.is_met(apart.kernel), apart.is_met(apart.wire)) == (False, False)


def test_a_state_that_cannot_be_set_is_not_met() -> None:
    row = _row(Found("", None, "not on this kernel"), Found("loss 5%", 5.0), Expected(5.0, 4.0, 6.0))
    assert (row.is_met(row.kernel), row.is_as_asked(row.kernel), row.is_met(row.wire)) == (False, False, True)


def test_without_netem_the_remedy_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why_not = "this kernel has no netem"
    monkeypatch.setattr(kernel, "abilities", lambda: kernel.Abilities(netem=False, seed=False, why_not=why_not))
    assert msgrlab(["bench", "links", "--packets", "100"]) == 3
    remedy = f"msgrlab: bench links: {why_not}: msgrlab vm run -- CMD runs a kernel with it"
    assert capsys.readouterr().err.strip().splitlines()[-1] == remedy


def test_an_unknown_key_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["bench", "links", "--keys", "colour"]) != 0
    assert "--keys colour: no state has such a word" in capsys.readouterr().err
