"""``msgrlab down``: stop clusters and remove all that they created on this machine."""

from itertools import repeat
from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.cli.cluster_names import ClusterName, ClusterPlace, one_name
from toolkit.cli.report_files import Html, Junit, ReportFiles
from toolkit.report.terminal import shown_line

LEFT = 1


def _check_place(keep: Path, names: list[str]) -> None:
    """Check that a folder for each cluster can be made, before anything is taken down.

    Raises:
        LocalError: a folder exists already, or cannot be made.
    """
    from toolkit.cluster.retention import check_writable

    for name in names:
        if (keep / name).exists():
            raise LocalError(f"--keep: {keep / name} exists already, and nothing is overwritten")
    try:
        check_writable(keep)
    except LocalError as error:
        raise LocalError(f"--keep {error}; nothing was taken down") from None


def down(
    cluster: ClusterPlace = "",
    name: ClusterName = "",
    everything: Annotated[
        bool, typer.Option("--all", help="All clusters of this state directory, and the remains of crashed ones.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep histories, captures and logs in DIR, one folder per cluster."),
    ] = None,
    keep_keys: Annotated[
        bool,
        typer.Option(
            "--keep-keys", help="With --keep: keep keys, too: key logs, keyrings, and keys inside captures."
        ),
    ] = False,
    html: Html = None,
    junit: Junit = None,
) -> int:
    """Stop a cluster and remove all that it created; exit 1 if something could not be removed."""
    from toolkit.cluster.supervisor.client import chosen
    from toolkit.cluster.teardown import take_all_down
    from toolkit.machine import vm
    from toolkit.machine.leases import Lease, clusters, damaged, sweep

    def report(lease: Lease, remains: list[str]) -> None:
        print(f"{lease.label.name}: {'down' if not remains else 'some parts could not be removed'}")
        for line in remains:
            print(f"  {shown_line(line)}")

    name = one_name(cluster, name)
    if name and everything:
        raise LocalError(f"--all and the name of a cluster ({name}) exclude each other")
    files = ReportFiles(html, junit)
    if keep_keys and keep is None:
        raise LocalError("--keep-keys needs --keep DIR")
    found = clusters() if everything else [chosen(name)]
    if keep is not None:
        _check_place(keep, [lease.label.name for lease in found])
    if files:
        from toolkit.cluster.report_page import cluster_report

        places = [None if keep is None else keep.resolve() / lease.label.name for lease in found]
        pages = [cluster_report(*each) for each in zip(found, repeat(files.folder), places, strict=False)]
        files.write(pages, "Clusters")
    is_clean = take_all_down(found, report, None if keep is None else keep.resolve(), keep_keys=keep_keys)
    problems = []
    if everything:
        problems = sweep() + vm.sweep() + [f"{each}: remove {each.directory} by hand" for each in damaged()]
    for problem in problems:
        print(shown_line(problem))
    if not found and not problems:
        print("no cluster is up")
    return 0 if is_clean and not problems else LEFT
