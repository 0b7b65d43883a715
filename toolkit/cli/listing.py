"""``msgrlab list``: list the scenarios."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from toolkit.scenarios.scenario import Scenario


def list_scenarios(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO...]",
            help="Only these: ids, names, families (HS), your own files (FILE.py), or `own`.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """List the scenarios; a single scenario is shown with its description and cases."""
    from toolkit.scenarios.catalogue import select

    listed = [scenario for word in scenarios or ["all"] for scenario in select(word)]
    if as_json:
        print(json.dumps({"scenarios": [_row(scenario) for scenario in listed]}, indent=2))
    elif len(listed) == 1:
        _print_all(listed[0])
    else:
        _print_table(listed)


def _row(scenario: "Scenario") -> dict[str, Any]:
    return {
        "id": scenario.id,
        "name": scenario.name,
        "family": scenario.family,
        "priority": scenario.priority,
        "title": scenario.title,
        "description": scenario.description,
        "backends": list(scenario.backends),
        "only": scenario.only or None,
        "rules": list(scenario.rules),
        "ways": [way.name for way in scenario.ways],
        "cases": [case.name for case in scenario.cases if case.name],
        "sim_cases": {case.name: case.only for case in scenario.cases if case.only},
        "cuts": list(scenario.default_cuts),
    }


def _print_table(scenarios: "list[Scenario]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("id", "cases", "backends", "title"):
        table.add_column(heading, no_wrap=heading != "title")
    for scenario in scenarios:
        cases = str(len(scenario.cases)) if len(scenario.cases) > 1 else ""
        table.add_row(scenario.id, cases, " ".join(scenario.backends), escape(scenario.title))
    Console().print(table)


def _print_all(scenario: "Scenario") -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    console.print(f"[bold]{scenario.id}[/] {scenario.name}: [bold]{escape(scenario.title)}[/]")
    console.print(escape(scenario.description))
    where = " and ".join(scenario.backends) + (f" ({scenario.only})" if scenario.only else "")
    if scenario.file:
        console.print(f"[dim]defined in[/] {escape(scenario.file)}:{scenario.line}", highlight=False)
    console.print(f"[dim]runs on[/] {escape(where)}")
    console.print(f"[dim]ways[/] {', '.join(way.name for way in scenario.ways)}")
    if len(scenario.cases) > 1:
        console.print(f"[dim]{len(scenario.cases)} cases:[/]")
        for case in scenario.cases:
            console.print(f"  {escape(f'{scenario.id}[{case.name}]')}", highlight=False)
