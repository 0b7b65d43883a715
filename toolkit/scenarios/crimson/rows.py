"""Rows of the crimson table as cases of scenarios."""

from collections.abc import Callable
from typing import Any

from toolkit.lab.lab import Lab
from toolkit.scenarios.crimson.model import Function, SubRun, Table
from toolkit.scenarios.crimson.play import Play
from toolkit.scenarios.crimson.table import TABLE, V1_TABLE

Cases = dict[str, dict[str, Any]]
Chosen = Callable[[SubRun], bool]


ONE_ORDER = "the peer must have something to say before it hears that its link is gone"
HOW_OFTEN = "how often the peer asks while it is held up depends on the machine"
"""Why rows run on virtual time only."""


def rows(*functions: str, only: Chosen = lambda _run: True) -> Cases:
    """Make cases of a scenario from the sub-runs of some of the table's functions."""
    return _cases(TABLE, functions, only)


def v1_rows(*functions: str, only: Chosen = lambda _run: True) -> Cases:
    """The same for the table of msgr v1."""
    return _cases(V1_TABLE, functions, only)


def _cases(table: Table, functions: tuple[str, ...], only: Chosen) -> Cases:
    return {
        f"{run.label} {order}" if len(function.orders(run)) > 1 else run.label: {
            "row": run.id,
            "order": order.value,
        }
        for function in map(table.functions.__getitem__, functions)
        for run in filter(only, function.runs)
        for order in function.orders(run)
    }


def stopped_at(*points: str) -> Chosen:
    """Choose the sub-runs whose last stop is at one of these points."""
    return lambda run: str(run.stops[-1]).partition(" ")[2] in points


def row(lab: Lab, name: str) -> tuple[Function, SubRun]:
    """A row of the table for the lab's protocol."""
    return (V1_TABLE if lab.is_v1 else TABLE).runs[name]


def play(lab: Lab, name: str, order: str) -> None:
    """Play a row, and judge the result."""
    Play.of(lab, *row(lab, name), order).play()
