"""``msgrlab down``: clusters end, and nothing of them is left."""

from pathlib import Path
from typing import Annotated

import typer

from messenger.errors import LocalError
from toolkit.terminal import shown_line

LEFT = 1


def down(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which; may be left out if there is one.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="All clusters of this state directory, also what crashes have left.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep histories, captures and logs there, in a folder for each cluster."),
    ] = None,
    keep_keys: Annotated[
        bool,
        typer.Option(
            "--keep-keys", help="With --keep: keys, too: key logs, keyrings, and those that captures carry."
        ),
    ] = False,
) -> int:
    """Take a cluster down; exit 1 if something of it could not be undone."""
    from toolkit.cluster.ending import take_all_down
    from toolkit.cluster.supervisor.client import chosen
    from toolkit.machine.leases import Lease, damaged, leases, sweep

    def tell(lease: Lease, remains: list[str]) -> None:
        print(f"{lease.label.name}: {'down' if not remains else 'not all could be undone'}")
        for line in remains:
            print(f"  {shown_line(line)}")

    if keep_keys and keep is None:
        raise LocalError("--keep-keys goes with --keep DIR")
    found = leases() if everything else [chosen(name)]
    for lease in found:
        if keep is not None and (keep / lease.label.name).exists():
            raise LocalError(f"--keep: {keep / lease.label.name} exists already, and nothing is overwritten")
    is_clean = take_all_down(found, tell, None if keep is None else keep.resolve(), keep_keys=keep_keys)
    problems = sweep() + [f"{each}: remove {each.directory} by hand" for each in damaged()] if everything else []
    for problem in problems:
        print(shown_line(problem))
    if not found and not problems:
        print("no cluster is up")
    return 0 if is_clean and not problems else LEFT
