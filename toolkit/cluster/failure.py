"""The error for a cluster that does not start, and the lines of its logs that show why."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.nodes import RunningNode

_SUFFIXES = (".out", ".log")
_MAX_LINES = 8
"""Most lines, for all nodes together."""
_MAX_LINE_CHARS = 300
_TAIL_BYTES = 1 << 18
_NOTABLE = re.compile(
    r" -1 |\b(?:error|failed|fatal|abort\w*|cannot|denied|unable|not found|no such)\b", re.IGNORECASE
)
"""Lines that report a failure. Ceph logs errors for administrators at level -1."""
_DULL = re.compile(r"^\s*(?:$|File \"|\^+$|[-0-9]+> )|--[12]?-|/\S+ -- |AdminSocket: request")
"""Lines without information: of tracebacks, of dumps of recent events, of debug_ms, and of admin socket requests
that came too early."""


class NotUp(LocalError):
    """A cluster did not start.

    Args:
        reason: the cause, in a line.
        logs: see the attribute.
        lines: see the attribute.
        is_kept: see the attribute.
    """

    def __init__(self, reason: str, logs: Path, lines: Sequence[str], *, is_kept: bool = False) -> None:
        self.logs = logs
        """Directory of the history and of the logs of all nodes."""
        self.lines = tuple(lines)
        """The lines of the logs that show the cause, as ``FILE: LINE``."""
        self.is_kept = is_kept
        """True if the cluster still exists; ``logs`` is its directory then."""
        where = (
            f"the cluster is kept in {logs}: msgrlab status {logs.name}" if is_kept else f"all logs are in {logs}"
        )
        super().__init__("\n".join([reason, *(f"  {line}" for line in self.lines), where]))


def suspects(nodes: Iterable[RunningNode]) -> list[str]:
    """Return the nodes that kept a cluster from starting: those that exited, or else those that are not ready."""
    states = {node.name: node.state for node in nodes}
    ended = [name for name, state in states.items() if state in {"dead", "down"}]
    return ended or [name for name, state in states.items() if state == "starting"]


def notable_lines(directory: Path, nodes: Sequence[str]) -> list[str]:
    """Return the last lines that report a failure from the logs of these nodes, a few of each file.

    Args:
        directory: the cluster's directory, or the one that its files were kept in.
        nodes: names of the nodes whose logs are read.
    """
    files = [
        path
        for name in nodes
        for path in sorted((directory / name).glob("*"), key=lambda path: (path.suffix != ".out", path.name))
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size
    ]
    found: list[str] = []
    seen: set[str] = set()
    share = max(2, _MAX_LINES // max(1, len(files)))
    for path in files:
        chosen = _chosen(_tail(path), share)
        found += [f"{path.relative_to(directory)}: {line}" for line in chosen if line not in seen]
        seen.update(chosen)
    return found[:_MAX_LINES]


def _chosen(lines: Sequence[str], count: int) -> list[str]:
    worthy = [line for line in lines if not _DULL.search(line)]
    notable = [line for line in worthy if _NOTABLE.search(line)]
    return [line[:_MAX_LINE_CHARS] for line in (notable or worthy)[-count:]]


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
