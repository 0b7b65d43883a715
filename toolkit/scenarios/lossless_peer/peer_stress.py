"""LP: many lossless peers, random operations and random faults, from a seed."""

from typing import Any

from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_peer import LP
from toolkit.scenarios.shared.mix import Mix

_PEERS_OPTIONS: dict[str, Any] = {
    "ms_inject_socket_failures": 30,
    "ms_inject_internal_delays": 0.05,
    "ms_inject_delay_type": "client osd",
    "ms_inject_delay_probability": 1.0,
    "ms_max_backoff": 2.0,
}


def lossless_peer_stress(lab: Lab, policy: str, peers: int, operations: int) -> None:
    """Under random faults every message between many lossless peers arrives exactly once and in order.

    Every node dials every other, so that many dials race. One in 30 reads and writes finds its socket shut down,
    and every received message is delivered with a delay of up to five seconds. Once the faults end, every message
    has arrived, once.
    """
    names = [f"p{number}" for number in range(peers)]
    delay_s = 0.2 if lab.real_time else 5.0
    for number, name in enumerate(names):
        lab.node(name, f"osd.{number}", policy, ms_inject_delay_max=delay_s, **_PEERS_OPTIONS)
    lab.start()
    mix = Mix(lab, [(one, other) for one in names for other in names if one != other])
    mix.run(operations)
    mix.calm(names)
    mix.expect_all()
    lab.settle(within_s=120)


_POLICIES = ("lossless_peer", "lossless_peer_reuse")
LP.scenario(
    "LP-27",
    "lossless_peer_stress",
    cases={f"5 {policy}": {"policy": policy, "peers": 5, "operations": 60} for policy in _POLICIES},
)(lossless_peer_stress)
LP.scenario(
    "LP-27-large",
    "lossless_peer_stress_large",
    quick=False,
    cases={f"16 {policy}": {"policy": policy, "peers": 16, "operations": 400} for policy in _POLICIES},
)(lossless_peer_stress)
