"""SE: crimson's failover table as a whole, in secure mode."""

from toolkit.lab.lab import Lab
from toolkit.lab.sim.network import Network
from toolkit.lab.ways import SECURE_WAYS
from toolkit.scenarios.crimson.rows import HOW_OFTEN, play, rows
from toolkit.scenarios.crimson.table import TABLE
from toolkit.scenarios.secure_mode import SE

_CLEAR_BYTES = 16
"""Number of consecutive bytes of a message's text that ciphertext does not contain by chance."""


@SE.scenario(
    "SE-16",
    "secure_failover",
    cases=rows(*TABLE.functions),
    ways=SECURE_WAYS,
    sim_cases=dict.fromkeys(rows("CF32"), HOW_OFTEN),
)
def secure_failover(lab: Lab, row: str, order: str) -> None:
    """Every row of the crimson table has the same result with encryption and cephx.

    All sub-runs, on links in secure mode: the counters of every connection on both sides are those of the table.
    In simulation no text of a message is seen on any wire.
    """
    seen = bytearray()
    network = lab.network
    if isinstance(network, Network):
        network.on_bytes = lambda _wire, _direction, chunk: seen.extend(chunk)
    play(lab, row, order)
    for node in "a", "b":
        text = f"{node}.1 message 1 {node}.1 message 1 ".encode()[:_CLEAR_BYTES]
        lab.require(text not in seen, f"{node}'s message is on the wire in the clear")
    if isinstance(network, Network):
        lab.require(len(seen) > 0, "nothing was seen on any wire")
