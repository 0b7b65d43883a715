"""Sets each state on the kernel's netem and on the wire, reads it back, and measures packets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolkit.bench.links.cases import Case
from toolkit.bench.links.expected import SIGMAS, Expected
from toolkit.bench.links.hosts import RECEIVER, SENDER, Hosts, two_hosts
from toolkit.errors import Unsupported
from toolkit.network.links import Links
from toolkit.network.netem import kernel
from toolkit.network.state import LinkState

_PAIR = (SENDER, RECEIVER)
_PERCENT = " %"
_PART = 0.1
"""By how much netem and the wire may differ where nothing else is known, for values other than percentages."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one implementation did."""

    read: str
    """The state that was read back; empty if it could not be set."""
    value: float | None
    """The measured value; None if the state could not be set."""
    problem: str = ""
    """Why it could not be set."""


@dataclass(frozen=True, slots=True)
class LinkResult:
    """One row: a state, and what netem and the wire did."""

    asked: str
    what: str
    packets: int
    expected: Expected | None
    """None if netem and the wire are compared with each other only."""
    kernel: Found
    wire: Found

    def is_met(self, found: Found) -> bool:
        """True if a value is as expected; without an expectation, if both are alike."""
        if found.value is None:
            return False
        if self.expected is not None:
            return self.expected.has(found.value)
        other = self.wire if found is self.kernel else self.kernel
        return other.value is None or self._are_alike(found.value, other.value)

    def is_as_asked(self, found: Found) -> bool:
        """True if the state that was read back is the one that was asked for."""
        return bool(found.read) and LinkState.from_text(found.read) == LinkState.from_text(self.asked)

    def _are_alike(self, one: float, other: float) -> bool:
        if not self.what.endswith(_PERCENT):
            return abs(one - other) <= _PART * max(one, other)
        part = (one + other) / 200
        # twice, because the correlation of neighbours makes the sum vary more
        return abs(one - other) <= 2 * SIGMAS * 100 * math.sqrt(2 * part * (1 - part) / self.packets)

    def as_json(self) -> dict[str, Any]:
        """Return the row of the JSON object."""
        read = {"kernel_as_asked": self.is_as_asked(self.kernel), "wire_as_asked": self.is_as_asked(self.wire)}
        met = {"kernel_met": self.is_met(self.kernel), "wire_met": self.is_met(self.wire)}
        return {**asdict(self), **read, **met}


def measure_links(cases: Sequence[Case], packets: int, finished: Callable[[LinkResult], None]) -> list[LinkResult]:
    """Measure states of a link between two namespaces: all on netem, then each on the wire.

    Args:
        cases: the states.
        packets: number of packets for a state, unless it has its own.
        finished: called with each result as soon as it is complete.

    Raises:
        Unsupported: this user may not make namespaces, or the kernel has no netem.
        LocalError: the kernel rejects something.
    """
    abilities = kernel.abilities()
    if not abilities.netem:
        raise Unsupported(f"bench links: {abilities.why_not}: msgrlab vm run -- CMD runs a kernel with it")
    results = []
    with two_hosts() as hosts:
        with hosts.links("netem") as links:
            by_kernel = [_measure(hosts, links, case, packets) for case in cases]
        with hosts.links("wire") as links:
            for case, by_netem in zip(cases, by_kernel, strict=True):
                wire, sent = _measure(hosts, links, case, packets), case.packets or packets
                expected = case.expect(case.state, sent)
                results.append(LinkResult(case.asked, case.what, sent, expected, by_netem, wire))
                finished(results[-1])
    return results


def _measure(hosts: Hosts, links: Links, case: Case, packets: int) -> Found:
    try:
        links.set({_PAIR: case.state})
    except Unsupported as error:
        return Found("", None, str(error))
    read = str(links.get(*_PAIR))
    sent = case.packets or packets
    return Found(read, case.measure(hosts.send(sent, every_s=case.every_s), sent))
