"""Numbers that one messenger counts for all its sessions (docs/protocol.md §3.6)."""

_GLOBAL_SEQ_REACH = 1 << 31
"""No process dials so often, at five dials a second not in thirteen years."""


class Numbers:
    """The global_seq of dials and accepts, and moments."""

    __slots__ = ("global_seq", "moment")

    def __init__(self) -> None:
        self.global_seq = 0
        """The newest one."""
        self.moment = 0
        """The newest one."""

    def next_global_seq(self, at_least: int = 0) -> int:
        """A global_seq above those of earlier attempts and above ``at_least``.

        The counter of all sessions follows ``at_least`` only as far as a process can have counted: no peer may use
        up the 32 bits that v1 carries.
        """
        if at_least < _GLOBAL_SEQ_REACH:
            self.global_seq = max(self.global_seq, at_least)
        self.global_seq += 1
        return max(self.global_seq, at_least + 1)

    def next_moment(self) -> int:
        """A number for what happens now, higher than those of all that happened before."""
        self.moment += 1
        return self.moment
