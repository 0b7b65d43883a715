"""``msgrlab list``: which scenarios there are."""

import json
from typing import Annotated

import typer


def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """List the scenarios with their ids, families and backends."""
    from toolkit.scenarios.catalogue import CATALOGUE

    if as_json:
        rows = [
            {
                "id": scenario.id,
                "family": scenario.family,
                "title": scenario.title,
                "description": scenario.description,
                "backends": list(scenario.backends),
                "modes": list(scenario.modes),
                "cuts": list(scenario.default_cuts),
            }
            for scenario in CATALOGUE.values()
        ]
        print(json.dumps({"scenarios": rows}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("id", "family", "backends", "modes", "what it shows"):
        table.add_column(heading)
    for scenario in CATALOGUE.values():
        table.add_row(
            scenario.id,
            scenario.family,
            " ".join(scenario.backends),
            " ".join(scenario.modes),
            f"[bold]{scenario.title}.[/] {scenario.description}",
        )
    Console().print(table)
