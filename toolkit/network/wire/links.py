"""Links impaired by the wire: a process beside the bridges, started when a link first needs it."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.machine.changes import Change, Interface
from toolkit.network.links import Cable, Links, Pair, Passed, Way
from toolkit.network.state import LinkState
from toolkit.network.wire import forwarding
from toolkit.network.wire.bridging import Bridging
from toolkit.network.wire.detour import CableLink, Detour
from toolkit.network.wire.process import Attachment, Wire
from toolkit.network.wire.steering import Steering


class WireLinks(Links):
    """Links impaired by the switch in user space.

    While no link is impaired, packets go through the kernel's bridge and there is no wire. Then the frames of the
    impaired links are steered through it (:class:`Steering`). Where nftables cannot do that, the wire takes the
    place of the bridges for all links (:class:`Bridging`).
    """

    way: ClassVar[Way] = "wire"

    def __init__(
        self,
        cables: Sequence[Cable],
        states: Mapping[Pair, LinkState],
        *,
        note: Callable[[Change], None] = lambda _: None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        table: str = "msgrlab_wire",
    ) -> None:
        named = [
            replace(cable, tap=cable.tap or f"t{cable.port}", bridge=cable.bridge or f"b{cable.port}")
            for cable in cables
        ]
        super().__init__(named, states)
        self._note = note
        self._environment = environment
        self._log = log
        self._table = table
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._detour: Detour | None = None
        self._attached: set[Cable] = set()

    @override
    def describe(self) -> str:
        if self._wire is None:
            return "bridges; the wire in user space when a link needs it"
        steered = isinstance(self._detour, Steering)
        if not self._wire.alive:
            lost = "packets of impaired links" if steered else "packets"
            return f"the wire, in user space, has ended: {lost} go nowhere"
        which = "" if steered else f", for all links ({forwarding.why_not()})"
        return f"the wire, in user space (process {self._wire.pid}){which}"

    def _apply(self, states: Mapping[Pair, LinkState]) -> None:
        with self._lock:
            if self._wire is not None:
                self._change(states)
                return
            try:
                self._change(states)
            except LocalError:
                self.close()
                raise

    def _change(self, states: Mapping[Pair, LinkState]) -> None:
        """Lead links to impair into the wire, change all states at one moment, and lead healthy links past it."""
        impaired = self._links_of(pair for pair, state in states.items() if not state.is_clear)
        healthy = self._links_of(pair for pair, state in states.items() if state.is_clear)
        if self._wire is None or self._detour is None:
            self._wire = Wire(environment=self._environment, log=self._log)
            self._detour = self._choose()
        self._attach(self._wire, self._detour.cables(impaired))
        self._detour.begin(impaired)
        self._wire.set(states)
        self._detour.end(healthy)

    def _links_of(self, pairs: Iterable[Pair]) -> list[CableLink]:
        return [link for pair in pairs for link in self._shared(pair)]

    def _choose(self) -> Detour:
        if forwarding.why_not():
            return Bridging(self.cables, self._note)
        return Steering({cable.switch for cable in self.cables}, self._table, self._note)

    def _attach(self, wire: Wire, cables: Collection[Cable]) -> None:
        """Make the taps that do not exist yet."""
        missing = [cable for cable in cables if cable not in self._attached]
        for cable in missing:
            if cable.switch is None:
                self._note(Interface(cable.tap))
        wire.attach(
            *(
                Attachment(cable.host, cable.network, cable.switch, cable.tap, cable.mtu, cable.mac)
                for cable in missing
            )
        )
        self._attached.update(missing)

    def _read(self, pair: Pair) -> LinkState:
        assert self._wire is not None
        return self._wire.get(*pair)

    def _passed(self) -> dict[Pair, Passed]:
        assert self._wire is not None
        seen = dict.fromkeys(self._touched, Passed(0, 0, 0, 0))
        for found in self._wire.statistics():
            pair = found["sender"], found["receiver"]
            if pair in seen:
                so_far = seen[pair]
                lost = found["lost"] + found["overflowed"] + found["undelivered"]
                seen[pair] = Passed(
                    so_far.packets + found["packets"],
                    so_far.bytes + found["bytes"],
                    so_far.lost + lost,
                    so_far.queued + found["queued"],
                )
        return seen

    def close(self) -> None:
        """Lead all packets past the wire, and end it."""
        if self._detour is not None:
            self._detour.close()
            self._detour = None
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._attached.clear()
        self._touched.clear()
