"""The attackers' process.

The first line is an :class:`AttackSpec`, answered by ``{"ready": true}`` when the attack is under way. ``leave``
ends it and is answered by the number of connections that were dialled: the sockets close with the process.
"""

import os
import select
import sys

from toolkit.bench.control import answer
from toolkit.bench.hostile.attacks import ATTACKS
from toolkit.bench.hostile.links import Target
from toolkit.bench.hostile.spec import AttackSpec

_NICE = 10
"""Attackers have machines of their own: here they must not take the legitimate client's CPU."""


def run_attack(spec: AttackSpec) -> int:
    """Attack until a line comes; returns the number of connections that were dialled."""
    os.sched_setaffinity(0, {spec.cpu})
    os.nice(_NICE)
    target = Target(spec)
    attack = ATTACKS[spec.attack](target)
    attack.step()
    answer(ready=True)
    while not select.select([sys.stdin], [], [], attack.PAUSE_S)[0]:
        attack.step()
    return target.links


if __name__ == "__main__":
    connections = run_attack(AttackSpec.from_json(sys.stdin.buffer.readline()))
    answer(leave=connections)
