"""``msgrlab doctor``: the optional capabilities of this machine, and the command that installs missing ones."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from toolkit.machine.capability import Capability, Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Check what msgrlab can do on this machine, and print the command that installs what is missing."""
    from toolkit.doctor.catalogue import CAPABILITIES
    from toolkit.machine.capability import install_command, survey

    rows = survey(CAPABILITIES)
    install = install_command([finding for _, finding in rows])
    if as_json:
        print(json.dumps({"capabilities": [_as_json(*row) for row in rows], "install": install}, indent=2))
        return
    from rich.console import Console

    Console().print(_table(rows))
    if install:
        # printed without a table, so that it can be copied at any terminal width
        print(f"\nTo install what is missing:\n\n  {install}\n")


def _as_json(capability: "Capability", finding: "Finding") -> dict[str, str | bool | None]:
    return {
        "name": capability.name,
        "available": finding.available,
        "detail": finding.detail,
        "enables": capability.enables,
        "remedy": finding.remedy,
    }


def _table(rows: "Sequence[tuple[Capability, Finding]]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("capability", no_wrap=True)
    for heading in ("status", "needed for", "remedy"):
        table.add_column(heading)
    for capability, finding in rows:
        table.add_row(capability.name, _status(finding), capability.enables, Text(finding.remedy or ""))
    return table


def _status(finding: "Finding") -> "Text":
    from rich.text import Text

    if finding.available:
        return Text.assemble(("yes", "green"), f": {finding.detail}")
    if finding.remedy:
        return Text.assemble(("missing", "yellow"), f": {finding.detail}")
    return Text.assemble(("not on this machine", "red"), f": {finding.detail}")
