"""``msgrlab run``: scenarios, judged."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from toolkit.scenarios.runner import ScenarioRun

CHECK_FAILED = 1


def run(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Ids, as `msgrlab list` shows them.")
    ],
    backend: Annotated[
        str, typer.Option(help="Where: sim (virtual time) or local (processes on loopback).")
    ] = "sim",
    mode: Annotated[str, typer.Option(help="Connection mode: crc or secure.")] = "crc",
    proto: Annotated[str, typer.Option(help="Protocol: v1 or v2.")] = "v2",
    cipher: Annotated[str, typer.Option(help="Type of the cephx key: aes or aes256k.")] = "aes",
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 1,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Threads (in sim: shards) of each node for open connections.")
    ] = 0,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SENDER:TAG[:NTH[:BYTE]]",
            help="Cut at the NTH frame TAG from SENDER, after BYTE bytes of it, or behind it. Repeatable.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep history, chart and outcome of each run in a folder of DIR."),
    ] = None,
) -> int:
    """Run scenarios and check the invariants on what happened; exit 1 if anything is not as it must be."""
    from messenger.cephx.ciphers import KeyType
    from messenger.errors import LocalError
    from messenger.link import Protocol
    from toolkit.scenarios.catalogue import find
    from toolkit.scenarios.runner import run_scenario, save_artefacts

    if proto not in list(Protocol):
        raise LocalError(f"unknown protocol {proto!r}; known: {', '.join(Protocol)}")
    wanted = [find(name) for name in scenarios]
    runs = []
    for scenario in wanted:
        done = run_scenario(
            scenario,
            backend,
            mode,
            seed,
            cut or (),
            workers=workers,
            protocol=Protocol(proto),
            key_type=KeyType.from_label(cipher),
        )
        if out is not None:
            save_artefacts(done, out / done.name)
        runs.append(done)
    if as_json:
        print(json.dumps({"runs": [done.as_json() for done in runs]}, indent=2))
    else:
        _print_table(runs)
    return 0 if all(done.passed for done in runs) else CHECK_FAILED


def _print_table(runs: "list[ScenarioRun]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("scenario", "backend", "mode", "verdict", "seconds", "what is wrong"):
        table.add_column(heading)
    for done in runs:
        verdict = "[green]passed[/]" if done.passed else "[red]failed[/]"
        table.add_row(
            done.scenario.id,
            done.backend,
            done.mode,
            verdict,
            f"{done.duration_s:.2f}",
            "\n".join(done.complaints),
        )
    Console().print(table)
    for done in runs:
        if not done.passed:
            print(f"again: {done.replay_command}")
        for name, path in done.artefacts.items():
            print(f"{name}: {path}")
