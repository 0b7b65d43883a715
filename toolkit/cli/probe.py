"""``msgrlab probe``: the messenger at an address, and with a keyring the cluster behind it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.cluster_names import party

if TYPE_CHECKING:
    from toolkit.probe.findings import Findings

REFUSED = 1


def probe(
    addr: Annotated[
        str,
        typer.Argument(
            metavar="ADDR",
            help="HOST or HOST:PORT, also with v1: or v2: before it; the default port is 3300, for v1 6789. Or "
            "CLUSTER/NODE, a node of a running cluster, with its keyring.",
        ),
    ],
    keyring: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keyring to log in to a monitor; or CLUSTER/NODE.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="TYPE.ID", help="Entity to log in as.")] = "client.admin",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit of each answer.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> int:
    """Show the protocol, features, authentication methods and connection modes of the messenger at ADDR."""
    import asyncio

    from toolkit.probe.findings import investigate, parse_target

    place, keyrings = party(addr, [keyring] if keyring else [])
    findings = asyncio.run(investigate(parse_target(place), name, next(iter(keyrings), None), timeout))
    if as_json:
        print(json.dumps(findings.as_json(), indent=2))
    else:
        _print(findings)
    return REFUSED if findings.fault else 0


def _print(findings: "Findings") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from toolkit.report.terminal import shown

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in findings.as_text():
        table.add_row(label, Text(shown(value)))
    Console().print(table, markup=False)
