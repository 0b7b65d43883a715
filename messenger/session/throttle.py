"""A limit on what is held at a time (protocol.md §3.10)."""

from messenger.errors import LocalError


class Throttle:
    """Counts units taken and given back. One that is over its limit says so; it never refuses what is here."""

    __slots__ = ("limit", "value")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """0 = without limit."""
        self.value = 0

    @property
    def full(self) -> bool:
        """Whether no more should be taken for now."""
        return 0 < self.limit <= self.value

    def take(self, amount: int) -> None:
        """Hold ``amount`` more."""
        self.value += amount

    def put(self, amount: int) -> None:
        """Give ``amount`` back.

        Raises:
            LocalError: more than is held; something was released twice.
        """
        if amount > self.value:
            raise LocalError(f"{amount} bytes released where {self.value} are held: was a message released twice?")
        self.value -= amount
