"""Open files: how many a process may have, and whether that is enough for what it is going to do."""

import resource

from toolkit.errors import Unsupported


def raise_limit() -> None:
    """Raise this process's limit as far as it may: the soft limit of a login shell is mostly 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_room(files: int, what: str) -> None:
    """Refuse what needs more open files than this process can be allowed to have.

    Raises:
        Unsupported: it does; with both numbers.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and files > hard:
        raise Unsupported(f"{what} takes {files:,} open files, and the limit is {hard:,}: ulimit -Hn {files}")
