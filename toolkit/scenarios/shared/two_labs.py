"""Runs the same script on sockets and in simulation, and compares the results."""

from collections.abc import Callable
from contextlib import closing

from toolkit.checks.invariants import check
from toolkit.lab.lab import Lab
from toolkit.lab.ways import ways

WAYS = ways("v2-crc", "v2-secure", "v2-crc-w2", "v1")
COMPARED = "what happens in simulation is what it is compared with"


def twice(lab: Lab, play: Callable[[Lab], None], outcome: Callable[[Lab, str], object]) -> None:
    """Run a script in this lab and in a simulated one, and require the same outcome at each node."""
    from toolkit.lab.sim.sim_lab import SimLab  # noqa: PLC0415 - it needs the vocabulary, and so this catalogue

    play(lab)
    with closing(SimLab(lab.way, lab.seed)) as other:
        play(other)
        wrong = [violation.text for result in check(other.history) for violation in result.violations]
        lab.require(not wrong, f"in simulation: {wrong}")
        for node in "ab":
            here, there = outcome(lab, node), outcome(other, node)
            lab.require(here == there, f"{node} on {lab.backend}: {here}; in simulation: {there}")


def settled(lab: Lab) -> None:
    """Wait until every message of ``a`` and ``b`` is acknowledged."""
    for node in "ab":
        lab.expect_acked(node)


def app_records(lab: Lab, node: str) -> list[tuple[object, ...]]:
    """The events and messages that a node's application got, in order."""
    seen: list[tuple[object, ...]] = []
    for record in lab.history.node(node):
        if record.kind == "event":
            seen.append(("event", record["event"]))
        elif record.kind == "deliver":
            seen.append(("deliver", record["tid"], record["digest"]))
    return seen
