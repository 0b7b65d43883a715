"""A cluster that does not come up: its logs, and the lines in them that show why."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.nodes import RunningNode

_SUFFIXES = (".out", ".log")
_MAX_LINES = 8
"""Of all nodes together."""
_MAX_LINE_CHARS = 300
_TAIL_BYTES = 1 << 18
_TELLING = re.compile(
    r" -1 |\b(?:error|failed|fatal|abort\w*|cannot|denied|unable|not found|no such)\b", re.IGNORECASE
)
"""Ceph logs what an administrator has to see at level -1."""
_DULL = re.compile(r"^\s*(?:$|File \"|\^+$|[-0-9]+> )|--[12]?-|/\S+ -- |AdminSocket: request")
"""Lines of tracebacks, of a dump of recent events, of debug_ms, and about questions that came too early."""


class NotUp(LocalError):
    """A cluster did not come up.

    Args:
        reason: in a line.
        logs: see the attribute.
        lines: likewise.
        is_kept: likewise.
    """

    def __init__(self, reason: str, logs: Path, lines: Sequence[str], *, is_kept: bool = False) -> None:
        self.logs = logs
        """Directory of the history and of the logs of all nodes."""
        self.lines = tuple(lines)
        """The lines of the logs that show why: ``FILE: LINE``."""
        self.is_kept = is_kept
        """True if the cluster is still there; ``logs`` is its directory then."""
        where = (
            f"the cluster is kept in {logs}: msgrlab status {logs.name}" if is_kept else f"all logs are in {logs}"
        )
        super().__init__("\n".join([reason, *(f"  {line}" for line in self.lines), where]))


def suspects(nodes: Iterable[RunningNode]) -> list[str]:
    """The nodes that keep a cluster from coming up: those that ended, or else those that are not ready."""
    states = {node.name: node.state for node in nodes}
    ended = [name for name, state in states.items() if state in {"dead", "down"}]
    return ended or [name for name, state in states.items() if state == "starting"]


def telling_lines(directory: Path, nodes: Sequence[str]) -> list[str]:
    """The last lines in the logs of these nodes that show what went wrong, of each file its share.

    Args:
        directory: of the cluster, or where its files were kept.
        nodes: whose logs are read.
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
    telling = [line for line in worthy if _TELLING.search(line)]
    return [line[:_MAX_LINE_CHARS] for line in (telling or worthy)[-count:]]


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
