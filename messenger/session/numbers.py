"""Counters that all sessions of one messenger share (docs/protocol.md §3.6)."""

_GLOBAL_SEQ_REACH = 1 << 31
"""Largest global_seq of a peer that is adopted: at five dials a second no process gets there in thirteen years."""


class Numbers:
    """The global_seq of dials and accepts, and a logical clock."""

    __slots__ = ("global_seq", "moment")

    def __init__(self) -> None:
        self.global_seq = 0
        """The newest global_seq."""
        self.moment = 0
        """The newest value of the logical clock."""

    def next_global_seq(self, at_least: int = 0) -> int:
        """A global_seq above all earlier ones and above ``at_least``.

        The shared counter follows ``at_least`` only up to a value that a process can have reached: otherwise a
        peer could use up the 32 bits that v1 carries.
        """
        if at_least < _GLOBAL_SEQ_REACH:
            self.global_seq = max(self.global_seq, at_least)
        self.global_seq += 1
        return max(self.global_seq, at_least + 1)

    def next_moment(self) -> int:
        """Advance the logical clock: the result is higher than those of all earlier events."""
        self.moment += 1
        return self.moment
