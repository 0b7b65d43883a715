"""The table is complete, and its verdicts are those of the checks."""

from dataclasses import replace

import pytest

from messenger.errors import LocalError
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.crimson.model import Expected, Order, Stop, SubRun, Table
from toolkit.scenarios.crimson.play import Play
from toolkit.scenarios.crimson.races import BEYOND
from toolkit.scenarios.crimson.table import TABLE, V1_TABLE

EXTRA = {run.id for function in BEYOND for run in function.runs}
WINNERS = {"CF22", "CF24"}
LOSERS = {"CF23", "CF25"}


def test_the_table_has_40_functions_and_109_sub_runs() -> None:
    assert set(TABLE.runs) - EXTRA == {f"X{number:03}" for number in range(1, 110)}
    assert set(TABLE.functions) - {function.id for function in BEYOND} == {f"CF{n:02}" for n in range(1, 41)}


@pytest.mark.parametrize(("skipped", "count"), [(WINNERS, 89), (LOSERS, 87)])
def test_one_invocation_runs_89_of_them_or_87(skipped: set[str], count: int) -> None:
    runs = [run for function, run in TABLE.runs.values() if function.id not in skipped]
    assert len([run for run in runs if run.id not in EXTRA]) == count


def test_races_are_run_in_both_orders_of_addresses() -> None:
    for function, run in TABLE.runs.values():
        if function.id in WINNERS | LOSERS:
            assert function.orders(run) == (Order.LOWER if function.id in WINNERS else Order.HIGHER,)
        elif function.policy.startswith("lossless_peer"):
            assert set(function.orders(run)) == {Order.LOWER, Order.HIGHER}


def test_every_sub_run_is_a_case_of_a_scenario() -> None:
    for table, version in (TABLE, "v2"), (V1_TABLE, "v1"):
        rows = {
            (case.params["row"], case.params["order"])
            for scenario in CATALOGUE.values()
            for case in scenario.cases
            if {"row", "order"} <= case.params.keys()
            if scenario.id != "SE-16" and case.protocol in {None, version}
        }
        assert {(run.id, order) for f, run in table.runs.values() for order in f.orders(run)} <= rows


def test_a_sub_run_is_in_the_table_once() -> None:
    function = TABLE.functions["CF01"]
    with pytest.raises(LocalError, match="X001 is in the table twice"):
        Table.of(function, replace(function, id="CF99"))


@pytest.mark.parametrize("text", ["", "FAULT", "HIT HELLO READ", "FAULT HELLO DOWN", "FAULT HELLO READ #x"])
def test_stop_refuses_invalid_text(text: str) -> None:
    with pytest.raises(LocalError):
        Stop.parse(text)


def _changed(run: SubRun) -> list[SubRun]:
    """The row with one thing in it changed, for each thing there is."""
    first, *rest = run.tested
    wrong = [
        replace(first, state="replaced"),
        replace(first, connect=(3, 1, 1, 2)),
        replace(first, accept=(1, 0, 0, 0)),
        replace(first, reset=(1, 0)),
        replace(first, reset=(0, 1)),
    ]
    return [
        *(replace(run, tested=(one, *rest)) for one in wrong),
        replace(run, tested=(*run.tested, Expected("closed", accept=(1, 0, 0, 0)))),
        replace(run, peer=run.peer[:-1]),
        replace(run, stops=(Stop.parse("FAULT ACK READ #9"),)),
        replace(run, arrives=(1, 0)),
    ]


@pytest.mark.parametrize("index", range(9))
def test_row_with_one_wrong_value_fails(index: int) -> None:
    function, run = TABLE.runs["X030"]
    with pytest.raises(ScenarioFailed):
        Play.of(SimLab("v2-crc", 1), function, _changed(run)[index], "lower").play()
