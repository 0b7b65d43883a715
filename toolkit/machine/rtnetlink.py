"""Speaking with the kernel about networks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroute2 import IPRoute


@contextmanager
def rtnetlink() -> Iterator["IPRoute"]:
    """A connection to the kernel of the network namespace that this thread is in.

    pyroute2 takes an event loop that runs in this thread for its own, and then cannot wait for answers. In a
    notebook one always runs, so it is out of sight for as long as this lasts.
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
