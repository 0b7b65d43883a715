"""``msgrlab bench links``: a link's state as asked for, set in the kernel, and seen on netem and the wire."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.bench_output import check_out, measured, new_table, show

if TYPE_CHECKING:
    from toolkit.bench.links.measure import Found, LinkResult


def links(
    packets: Annotated[int, typer.Option(min=100, max=1_000_000, help="Packets for each row.")] = 20_000,
    keys: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only rows whose states contain one of these words.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Measure impairments of packets: asked for, the kernel's netem, the wire.

    Each state is set on a link between two namespaces, once by netem (pyroute2) and
    once by the wire in user space, read back, and measured with datagrams of 200
    bytes.

    expected: from the definition of the state, with the range of three standard
    deviations; empty where netem and the wire are compared with each other only. !
    marks a value outside, or a state that was read back differently.

    It needs root and a kernel with netem: msgrlab vm run -- msgrlab bench links
    """
    from messenger.errors import LocalError
    from toolkit.bench.links.cases import CASES
    from toolkit.bench.links.measure import measure_links

    check_out(out)
    words = [word.strip() for word in keys.split(",")] if keys is not None else [""]
    cases = [case for case in CASES if any(word in case.asked for word in words)]
    if not cases:
        raise LocalError(f"--keys {keys}: no state has such a word; an example is {CASES[0].asked!r}")
    done = measured("links", len(cases), partial(measure_links, cases, packets))
    table = new_table(("asked", "value"), ("expected", "kernel", "wire"))
    table.columns[0].no_wrap = False
    for row in done.rows:
        wanted = "" if row.expected is None else f"{row.expected.value:.2f}"
        table.add_row(row.asked, row.what, wanted, _text(row, row.kernel), _text(row, row.wire))
    show(done, table, out, as_json=as_json)


def _text(row: "LinkResult", found: "Found") -> str:
    if found.value is None:
        return "refused"
    is_right = row.is_met(found) and row.is_as_asked(found)
    return f"{found.value:.2f}{' ' if is_right else '!'}"
