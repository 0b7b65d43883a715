"""Take clusters down in any state: through their supervisor, or from their journal alone."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.retention import is_kept, keep_files
from toolkit.cluster.supervisor.client import ask_down
from toolkit.machine.changes import Processes
from toolkit.machine.leases import Lease


def take_down(lease: Lease, keep: Path | None = None, *, keep_keys: bool = False) -> list[str]:
    """Take a cluster down; returns a line for each thing that could not be undone.

    Args:
        lease: lease of the cluster.
        keep: directory that receives its history, captures and logs.
        keep_keys: True to keep keys there, too.
    """
    remains = ask_down(lease, keep, keep_keys=keep_keys)
    if remains is None:
        return end_by_force(lease, keep, keep_keys=keep_keys)
    if remains and lease.directory.exists():
        if keep is not None and not is_kept(lease.directory, keep, keys=keep_keys):
            return remains  # the directory has what could not be kept
        remains += end_by_force(lease)
    return list(dict.fromkeys(remains))


def end_by_force(lease: Lease, keep: Path | None = None, *, keep_keys: bool = False) -> list[str]:
    """Kill all processes with a cluster's label and undo its journal; returns what could not be undone."""
    problems: list[str] = []
    is_unkept = False
    try:
        # first, so that no process of the cluster undoes the journal at the same time
        Processes(str(lease.label)).undo()
        if keep is not None and lease.directory.exists():
            is_unkept = True
            keep_files(lease.directory, keep, keys=keep_keys)
            is_unkept = False
    except LocalError as error:
        problems.append(str(error))
    return problems + lease.journal.undo(keep_directory=is_unkept)


def take_all_down(
    leases: Sequence[Lease],
    report: Callable[[Lease, list[str]], None] = lambda _lease, _remains: None,
    keep: Path | None = None,
    *,
    keep_keys: bool = False,
) -> bool:
    """Take clusters down in parallel; returns True if nothing of any of them is left.

    Args:
        leases: leases of the clusters.
        report: called for each cluster that is down, with what could not be undone.
        keep: directory that receives their histories, captures and logs, in a subdirectory for each.
        keep_keys: True to keep keys there, too.
    """
    if not leases:
        return True
    take = partial(take_down, keep_keys=keep_keys)
    with ThreadPoolExecutor(min(len(leases), 16)) as threads:
        kept = [keep / lease.label.name if keep else None for lease in leases]
        outcomes = list(zip(leases, threads.map(take, leases, kept), strict=True))
    for lease, remains in outcomes:
        report(lease, remains)
    return not any(remains for _, remains in outcomes)
