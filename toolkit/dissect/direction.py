"""The direction of bytes on a link."""

from enum import StrEnum


class Direction(StrEnum):
    """The direction of bytes; ``to_server`` is what the connector sends."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"

    @property
    def other(self) -> "Direction":
        """The opposite direction."""
        return Direction.TO_CLIENT if self is Direction.TO_SERVER else Direction.TO_SERVER
