"""What attacks have in common."""

from abc import ABC, abstractmethod
from typing import ClassVar

from toolkit.bench.hostile.links import Target


class Attack(ABC):
    """One attack; the process that runs it calls :meth:`step` again and again, and then ends.

    Args:
        target: the attacked server.
    """

    PAUSE_S: ClassVar[float] = 0.02
    """Pause between two steps."""
    IS_FLOOD: ClassVar[bool] = False
    """The server is kept as busy as the attackers can."""
    OPEN_FILES: ClassVar[int] = 0
    """RLIMIT_NOFILE of the server under this attack; 0 leaves it as it is."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def step(self) -> None:
        """Do a part of it, which takes milliseconds."""
