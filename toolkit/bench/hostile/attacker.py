"""The attackers' process.

The first line is an :class:`AttackSpec`, answered by ``{"ready": true}`` once the attack runs. ``leave`` ends it
and is answered by the number of connections that were opened; their sockets close with the process.
"""

import os
import select
import sys

from toolkit.bench.control import answer
from toolkit.bench.hostile.attacks import ATTACKS
from toolkit.bench.hostile.links import Target
from toolkit.bench.hostile.spec import AttackSpec

_NICE = 10
"""Priority of the attackers: unlike on real machines, they share a CPU with the legitimate client."""


def run_attack(spec: AttackSpec) -> int:
    """Attack until a line arrives on standard input; return the number of connections opened."""
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
