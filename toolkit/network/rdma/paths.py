"""Paths with a smaller MTU: rules of nftables that drop longer packets between two hosts of a bridge.

The bridge drops them, and not an interface with a smaller MTU: after a device's own interface had dropped a
packet, a machine with one processor stood still (Linux 6.1).
"""

from collections.abc import Mapping

from toolkit.machine.changes import NftTable
from toolkit.machine.journal import Journal
from toolkit.machine.nft import nft

_FAMILY = "bridge"
Way = tuple[str, str]
"""The sender and the receiver: names or Ethernet addresses."""


class NarrowPaths:
    """The paths of one bridge, which drop packets that are too long without an error.

    Args:
        table: name of the table with the rules.
        journal: gets the table before it is made.
    """

    def __init__(self, table: str, journal: Journal) -> None:
        self._change = NftTable(_FAMILY, table)
        self._journal = journal
        self._is_made = False

    def set(self, mtus: Mapping[Way, int]) -> None:
        """Set the longest packets in bytes that pass, by Ethernet addresses; replaces all earlier ones.

        Raises:
            LocalError: the kernel rejects the rules.
            Unsupported: nft is not installed.
        """
        if not mtus:
            self.close()
            return
        if not self._is_made:
            self._journal.note(self._change)
            self._is_made = True
        rules = "".join(
            f"ether saddr {sender} ether daddr {receiver} meta length > {mtu_bytes} counter drop\n"
            for (sender, receiver), mtu_bytes in sorted(mtus.items())
        )
        table = f"{_FAMILY} {self._change.name}"
        chain = f"chain paths {{ type filter hook forward priority 0;\n{rules}}}"
        nft("-f", "-", text=f"table {table}\ndelete table {table}\ntable {table} {{\n{chain}\n}}\n")

    def close(self) -> None:
        """Remove the rules."""
        if self._is_made:
            self._change.undo()
            self._journal.take_back(self._change)
            self._is_made = False
