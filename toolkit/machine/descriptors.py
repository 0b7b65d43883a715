"""Limits on open files."""

import resource

from toolkit.errors import Unsupported


def raise_limit() -> None:
    """Raise this process's soft limit to the hard limit; login shells usually set 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_room(files: int, what: str) -> None:
    """Check that this process may open that many files.

    Raises:
        Unsupported: the hard limit is lower; the message has both numbers.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and files > hard:
        raise Unsupported(f"{what} needs {files:,} open files, and the limit is {hard:,}: ulimit -Hn {files}")
