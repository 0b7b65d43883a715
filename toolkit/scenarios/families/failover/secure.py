"""SE-16 and V1-11: the table as a whole, encrypted, and over the points of msgr v1."""

from toolkit.scenarios.crimson.table import TABLE
from toolkit.scenarios.families.failover.rows import HOW_OFTEN, ONE_ORDER, play, rows, v1_rows
from toolkit.scenarios.families.se import SE
from toolkit.scenarios.families.v1 import V1
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.ways import SECURE_WAYS, V1_WAYS

_RACES = ("CF22", "CF23", "CF24", "CF25", "CF26", "CF27", "CF28", "CF29", "CF30", "CF31", "CF32", "CF32+")
_CLEAR_BYTES = 16
"""So many bytes of a message's text in a row do not come about by chance."""


@SE.scenario(
    "SE-16",
    "secure_failover",
    cases=rows(*TABLE.functions),
    ways=SECURE_WAYS,
    sim_cases=dict.fromkeys(rows("CF32"), HOW_OFTEN),
)
def secure_failover(lab: Lab, row: str, order: str) -> None:
    """Every fault and every race of the crimson table comes to the same with encryption and cephx.

    All sub-runs, on links in secure mode: the counters of every connection on both sides are those of the table,
    whatever was sealed on the link that broke. On the simulator no text of a message is seen on any wire.
    """
    seen = bytearray()
    network = getattr(lab, "network", None)
    if network is not None:
        network.on_bytes = lambda _wire, _direction, chunk: seen.extend(chunk)
    play(lab, row, order)
    for node in "a", "b":
        text = f"{node}.1 message 1 {node}.1 message 1 ".encode()[:_CLEAR_BYTES]
        lab.require(text not in seen, f"{node}'s message is on the wire in the clear")
    if network is not None:
        lab.require(len(seen) > 0, "nothing was seen on any wire")


@V1.scenario(
    "V1-11",
    "race_v1_breakpoints",
    cases=v1_rows(*_RACES),
    ways=V1_WAYS,
    sim_cases=dict.fromkeys(v1_rows("CF31"), ONE_ORDER) | dict.fromkeys(v1_rows("CF32"), HOW_OFTEN),
)
def race_v1_breakpoints(lab: Lab, row: str, order: str) -> None:
    """Races on msgr v1, held up at every point, end with one session whose counters are those of v2.

    One side's dial is blocked at banner, addresses, CONNECT, the challenge or the authorizer while the other's
    comes through, both dialling for the first time and both reconnecting; or it is stalled behind the last reply
    or the numbers of SEQ, and finds itself superseded when it goes on. By the lower address one wins.
    """
    play(lab, row, order)
