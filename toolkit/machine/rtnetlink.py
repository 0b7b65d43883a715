"""A connection to the kernel's network configuration (rtnetlink)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroute2 import IPRoute


@contextmanager
def rtnetlink() -> Iterator["IPRoute"]:
    """Connect to the kernel in the network namespace of this thread.

    pyroute2 uses an event loop that runs in this thread as its own, and then cannot wait for replies. Notebooks
    always run one, so it is hidden for the duration of the ``with`` block.
    """
    import asyncio.events as loops

    from pyroute2 import IPRoute

    running = loops._get_running_loop()  # noqa: SLF001 - exported, to run one loop inside another
    loops._set_running_loop(None)  # noqa: SLF001
    try:
        with IPRoute() as route:
            yield route
    finally:
        loops._set_running_loop(running)  # noqa: SLF001
