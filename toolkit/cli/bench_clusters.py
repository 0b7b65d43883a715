"""``msgrlab bench clusters``: how long clusters take to come up and to go down."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from toolkit.cli.bench_output import check_out, measured, new_table, show


def clusters(
    backends: Annotated[
        str, typer.Option(metavar="LIST", help="Backends, separated by commas.")
    ] = "process,netns,docker",
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How often each cluster is started.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the JSON object to a new file.")
    ] = None,
) -> None:
    """Measure how long `msgrlab up` and `msgrlab down` take.

    two-peers: the ready-made cluster. mon-osd: a real monitor and one OSD, until
    HEALTH_OK, with the Ceph installed here; in Docker, with the image
    ceph:pacific.

    floor: one Python process that does nothing, or one container, measured in the
    same turns. Figures are medians, in seconds.
    """
    from messenger.errors import LocalError
    from toolkit.bench.clusters import KINDS, measure_clusters

    check_out(out)
    wanted = backends.split(",")
    known = dict.fromkeys(kind.backend for kind in KINDS)
    for backend in wanted:
        if backend not in known:
            raise LocalError(f"--backends: unknown backend {backend!r}; known: {', '.join(known)}")
    kinds = [kind for kind in KINDS if kind.backend in wanted]
    done = measured("clusters", len(kinds), partial(measure_clusters, kinds, rounds))
    table = new_table(("cluster", "backend"), ("up s", "down s", "floor s"))
    table.add_column("problem")
    for result in done.rows:
        times = (result.up_s, result.down_s, result.floor_s)
        row = ("" if time_s is None else f"{time_s:.2f}" for time_s in times)
        table.add_row(result.kind.cluster, result.kind.backend, *row, result.problem)
    show(done, table, out, as_json=as_json)
