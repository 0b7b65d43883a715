"""What is worth keeping of a cluster that goes down."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import new_file

_KEPT = frozenset({".ndjson", ".pcapng", ".log"})


def keep_files(cluster: Path, directory: Path) -> None:
    """Copy history, captures and logs out of a cluster's directory; nothing is overwritten.

    Only their owner can read the copies: captures hold keys.

    Args:
        cluster: its directory.
        directory: where they go; made if need be.

    Raises:
        LocalError: something of that name is there, or cannot be written; the rest is copied nevertheless.
    """
    problems = []
    for path in _worth_keeping(cluster):
        target = directory / path.relative_to(cluster)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, new_file(target) as copy:
                shutil.copyfileobj(source, copy)
        except FileExistsError:
            problems.append(f"{target}: it exists already, and nothing is overwritten")
        except OSError as error:
            problems.append(f"{target}: {error.strerror}")
    if problems:
        raise LocalError("; ".join(problems))


def _worth_keeping(cluster: Path) -> Iterator[Path]:
    """In the cluster's own directory, and in those of its hosts; not below, where stores of daemons lie."""
    for pattern in ("*", "*/*"):
        for path in sorted(cluster.glob(pattern)):
            if path.suffix in _KEPT and path.is_file() and not path.is_symlink() and path.stat().st_size:
                yield path
