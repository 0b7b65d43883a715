"""Limits on open files."""

import resource

from toolkit.errors import Unsupported


def raise_limit() -> None:
    """Raise this process's soft limit to the hard limit; login shells usually set 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_room(files: int, what: str, instead: str) -> None:
    """Check that this process may open that many files.

    Args:
        files: number of files.
        what: what needs them, for the error.
        instead: what needs fewer, for the error.

    Raises:
        Unsupported: the hard limit is lower; the message has both numbers.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and files > hard:
        remedy = f"ulimit -Hn {files}, or {instead}"
        raise Unsupported(f"{what} needs {files:,} open files, and the limit is {hard:,}: {remedy}")
