"""LY: many lossy clients, random operations and random faults, from a seed."""

from itertools import pairwise

from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.scenarios.lossy_client import LY
from toolkit.scenarios.shared.mix import Mix, servers_and_clients

_SMALL_LOSSY = {"3 x 6": {"servers": 3, "clients": 6, "operations": 360}}
_LARGE_LOSSY = {"8 x 16": {"servers": 8, "clients": 16, "operations": 1000}}
_LOSSY_OPTIONS = {"ms_inject_socket_failures": 30, "ms_inject_internal_delays": 0.1, "ms_max_backoff": 1.0}


def lossy_stress(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """Under random faults messages of many lossy clients arrive at most once, in order, with gaps only at resets.

    Clients open connections to several servers at random and send, while one in 30 reads and writes finds its
    socket shut down and decisions are delayed. Each reset event at either end of a connection explains at most one
    run of consecutive missing messages in each direction. Some clients get reset events.
    """
    nodes, pairs = servers_and_clients(lab, servers, clients, ("stateless_server", "lossy_client"), _LOSSY_OPTIONS)
    mix = Mix(lab, pairs)
    mix.run(operations)
    mix.calm(nodes)
    lab.settle(within_s=120)
    lost = sum(lab.events(client, server, EventKind.RESET) for client, server in pairs)
    lab.require(lost > 0 or lab.real_time, "no client had a reset event")
    for sender, receiver in mix.sent:
        gaps = _gaps(lab, sender, receiver)
        resets = lab.events(sender, receiver, EventKind.RESET) + lab.events(receiver, sender, EventKind.RESET)
        lab.require(gaps <= resets, f"{gaps} gaps in what {receiver} got of {sender}, and {resets} resets")


LY.scenario("LY-10", "lossy_stress", cases=_SMALL_LOSSY)(lossy_stress)
LY.scenario("LY-10-large", "lossy_stress_large", cases=_LARGE_LOSSY, quick=False)(lossy_stress)


def _gaps(lab: Lab, sender: str, receiver: str) -> int:
    """Number of runs of consecutive messages from a sender to a receiver that were not delivered."""
    delivered = {record["tid"] for record in lab.records(receiver, "deliver", peer=sender)}
    arrived = [record["tid"] in delivered for record in lab.records(sender, "send", peer=receiver)]
    return sum(before and not now for before, now in pairwise([True, *arrived]))
