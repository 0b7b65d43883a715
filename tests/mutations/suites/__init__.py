"""The suites that should notice mutants: one module each.

A suite has

* ``parts()``: the names of its parts;
* ``digest(part)``: digest of the source of a part, so that only changed parts are run again;
* ``play(parts, watch)``: asks the watch before each part, and reports each mistake that it notices.
"""

from typing import Protocol


class Watch(Protocol):
    """Follows a suite as it runs."""

    def begin(self, part: str) -> bool:
        """Return True to run this part, and any after it."""
        ...

    def notice(self, part: str, what: str) -> None:
        """A part fails."""
        ...
