"""``msgrlab bench hostile``: latency and losses of a legitimate client while its server is attacked."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_output import check_out, measured, new_table, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from toolkit.bench.hostile.measure import HostileResult

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 600.0


def hostile(
    attacks: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Attacks, separated by commas, or `none`; by default all of them."),
    ] = None,
    proto: Annotated[
        str, typer.Option(metavar="LIST", help="Protocols of client and attackers: v2, v1 or both.")
    ] = "v2,v1",
    seconds: Annotated[float, typer.Option(help="Seconds of each attack, and of the quiet time before it.")] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Attack a server and measure a legitimate client meanwhile.

    Three processes on loopback: a server on its own CPU; a client with one
    lossless session per protocol, which sends a request every 5 ms; the
    attackers, on the client's CPU with a lower priority. Each row has a new server.

    p50, p99: milliseconds from the time at which a request was due to its answer,
    during the attack; x: the same as a multiple of the quiet time just before.

    RSS: the growth of the server's peak during the attack, in MiB. CPU: the share
    of one CPU that the server used. lost: requests without the right answer, and
    sessions that were reset. back s: seconds from the end of the attack until the
    server has released all descriptors, sessions, queued bytes and throttle
    budget of the attackers, and its memory is back.

    missed: the goals that were missed. p99 20 ms, in floods 50 ms; RSS 64 MiB
    above the dispatch throttle of 32 MiB; nothing lost; all back within 15 s.
    """
    from messenger.errors import LocalError
    from messenger.link import Protocol
    from toolkit.bench.hostile.attacks import ATTACKS
    from toolkit.bench.hostile.measure import NONE, measure_attacks
    from toolkit.bench.options import parse_names

    check_out(out)
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise LocalError(f"--seconds: {seconds:g} is not from {_LEAST_SECONDS:g} to {_MOST_SECONDS:g}")
    known = (NONE, *ATTACKS)
    names = list(known) if attacks is None else parse_names("--attacks", known, attacks)
    protocols = [Protocol(name) for name in parse_names("--proto", tuple(Protocol), proto)]
    done = measured("hostile", len(names), partial(measure_attacks, names, protocols, seconds))
    show(done, _table(done.rows), out, as_json=as_json)


def _table(results: "Sequence[HostileResult]") -> "Table":
    table = new_table(("attack",), ("p50 ms", "x", "p99 ms", "x", "RSS", "CPU", "lost", "back s"))
    table.add_column("missed")
    for result in results:
        table.add_row(
            result.attack,
            f"{result.p50_ms:.1f}",
            f"{result.p50_ms / result.quiet_p50_ms:.1f}",
            f"{result.p99_ms:.1f}",
            f"{result.p99_ms / result.quiet_p99_ms:.1f}",
            f"{result.rss_mib:.0f}",
            f"{result.cpu:.2f}",
            str(result.lost + result.resets),
            "never" if result.given_back_s is None else f"{result.given_back_s:.1f}",
            ", ".join(result.missed),
        )
    return table
