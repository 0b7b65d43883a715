"""LC: many lossless clients, random operations and random faults, from a seed."""

from toolkit.lab.lab import Lab
from toolkit.scenarios.lossless_client import LC
from toolkit.scenarios.shared.mix import LARGE, SMALL, Mix, servers_and_clients

_THROTTLE_BYTES = 6000
"""Less than two of the largest messages of a mix."""
_LOSSLESS_OPTIONS = {
    "ms_inject_socket_failures": 30,
    "ms_inject_internal_delays": 0.1,
    "ms_dispatch_throttle_bytes": _THROTTLE_BYTES,
    "ms_max_backoff": 1.0,
}


def lossless_client_stress(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """Under random faults every message of many lossless clients arrives exactly once and in order.

    One in 30 reads and writes finds its socket shut down, decisions are delayed by 0.1 s, and a dispatch throttle
    of 6000 bytes fills up often. Applications never hold more bytes than the throttle allows, plus one message
    that may exceed it while it arrives; with workers, one for each, since each has its share of the throttle. Once
    the faults end, every message has arrived, once.
    """
    nodes, pairs = servers_and_clients(
        lab, servers, clients, ("stateful_server", "lossless_client"), _LOSSLESS_OPTIONS
    )
    mix = Mix(lab, pairs)
    mix.run(operations)
    mix.calm(nodes)
    mix.expect_all()
    held = [record["value"] for name in nodes for record in lab.records(name, "throttle", name="dispatch_bytes")]
    throttles = [
        group
        for name in nodes
        for throttle, group in lab.counters(name).items()
        if throttle.startswith("throttle-msgr_dispatch_throttler")
    ]
    full = sum(throttle["get_or_fail_fail"] for throttle in throttles)
    lab.require(
        full >= operations // (30 if lab.real_time else 10),
        f"the throttle was full {full} times in {operations} operations",
    )
    most_bytes = _THROTTLE_BYTES + max(1, lab.way.workers) * mix.most_bytes
    lab.require(max(held) <= most_bytes, f"applications may hold {most_bytes} bytes, one held {max(held)}")
    lab.settle(within_s=120)


LC.scenario("LC-10", "lossless_client_stress", cases=SMALL)(lossless_client_stress)
LC.scenario("LC-10-large", "lossless_client_stress_large", cases=LARGE, quick=False)(lossless_client_stress)
