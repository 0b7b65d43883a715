"""V1: crimson's races at the points of msgr v1."""

from toolkit.lab.lab import Lab
from toolkit.lab.ways import V1_WAYS
from toolkit.scenarios.crimson.rows import HOW_OFTEN, ONE_ORDER, play, v1_rows
from toolkit.scenarios.protocol_v1 import V1

_RACES = ("CF22", "CF23", "CF24", "CF25", "CF26", "CF27", "CF28", "CF29", "CF30", "CF31", "CF32", "CF32+")


@V1.scenario(
    "V1-11",
    "race_v1_breakpoints",
    cases=v1_rows(*_RACES),
    ways=V1_WAYS,
    sim_cases=dict.fromkeys(v1_rows("CF31"), ONE_ORDER) | dict.fromkeys(v1_rows("CF32"), HOW_OFTEN),
)
def race_v1_breakpoints(lab: Lab, row: str, order: str) -> None:
    """A race on msgr v1 ends with one session and the counters of msgr v2, wherever a dial is held.

    One side's dial is blocked at banner, addresses, CONNECT, the challenge or the authorizer while the other's
    comes through, both dialling for the first time or both reconnecting; or it is held behind the last reply or
    the in_seqs, and finds itself superseded when it goes on. The dial from the lower address wins.
    """
    play(lab, row, order)
