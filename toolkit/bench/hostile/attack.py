"""The base class of attacks."""

from abc import ABC, abstractmethod
from typing import ClassVar

from toolkit.bench.hostile.links import Target


class Attack(ABC):
    """One attack; its process calls :meth:`step` repeatedly until the attack is over, and then exits.

    Args:
        target: the attacked server.
    """

    PAUSE_S: ClassVar[float] = 0.02
    """Pause between two steps."""
    IS_FLOOD: ClassVar[bool] = False
    """True if the attack sends as much as the server accepts."""
    OPEN_FILES: ClassVar[int] = 0
    """RLIMIT_NOFILE of the server under this attack; 0 to leave it unchanged."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def step(self) -> None:
        """Do a part of the attack, in a few milliseconds."""
