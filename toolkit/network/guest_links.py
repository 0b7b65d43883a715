"""Links between hosts and virtual machines where the kernel has netem.

netem impairs what a host sends, by a queue on its interface. The interface of a virtual machine belongs to another
kernel, so what it sends goes through the wire.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from messenger.compat import override
from toolkit.network.links import Cable, Links, Pair, Passed, Way
from toolkit.network.netem.links import NetemLinks
from toolkit.network.state import LinkState
from toolkit.network.wire.links import WireLinks


class GuestLinks(Links):
    """Links from hosts by netem, and from virtual machines by the wire.

    Args:
        cables: cables of all of them.
        states: states of impaired links.
        netem: links between the same cables, by netem.
        wire: links between the same cables, by the wire.
    """

    way: ClassVar[Way] = "netem"

    def __init__(
        self, cables: Sequence[Cable], states: Mapping[Pair, LinkState], netem: NetemLinks, wire: WireLinks
    ) -> None:
        super().__init__(cables, states)
        self._netem = netem
        self._wire = wire
        self._guests = {cable.host for cable in cables if cable.namespace is None}

    @override
    def describe(self) -> str:
        return f"{self._netem.describe()}; from {', '.join(sorted(self._guests))}: {self._wire.describe()}"

    @override
    def _apply(self, states: Mapping[Pair, LinkState]) -> None:
        for links in (self._netem, self._wire):
            links.set({pair: state for pair, state in states.items() if self._of(pair) is links})

    @override
    def _read(self, pair: Pair) -> LinkState:
        return self._of(pair).get(*pair)

    @override
    def _passed(self) -> dict[Pair, Passed]:
        return self._netem.passed() | self._wire.passed()

    def _of(self, pair: Pair) -> Links:
        return self._wire if pair[0] in self._guests else self._netem

    @override
    def close(self) -> None:
        self._netem.close()
        self._wire.close()
        self._touched.clear()
