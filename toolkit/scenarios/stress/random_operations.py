"""ST: many nodes and random operations, from a seed; a server with many clients that restarts."""

from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.scenarios.shared.mix import LARGE, SMALL, Mix, servers_and_clients
from toolkit.scenarios.stress import ST


def synthetic_mix(lab: Lab, servers: int, clients: int, operations: int) -> None:
    """While random sessions open and close, every message arrives in order or an event explains its loss.

    Lossless clients dial, send, wait and mark their sessions down at random. A message that does not arrive is
    explained by an event or by the sender's own mark_down; at the end the counters of all nodes match their
    sessions.
    """
    nodes, pairs = servers_and_clients(
        lab, servers, clients, ("stateful_server", "lossless_client"), {"ms_max_backoff": 1.0}
    )
    mix = Mix(lab, pairs, drops=True)
    mix.run(operations)
    mix.calm(nodes)
    mix.forget_the_dead()
    lab.settle(within_s=120)
    lab.wait(0.1)
    for name in nodes:
        active = sum(
            group["msgr_active_connections"]
            for worker, group in lab.counters(name).items()
            if worker.startswith("AsyncMessenger::Worker-")
        )
        sessions = lab.holdings(name)["sessions"]
        lab.require(active == sessions, f"{name} counts {active} connections and has {sessions}")


ST.scenario("ST-01", "synthetic_mix", cases=SMALL)(synthetic_mix)
ST.scenario("ST-01-large", "synthetic_mix_large", cases=LARGE, quick=False)(synthetic_mix)


@ST.scenario("ST-05", "reconnect_storm", priority=2, quick=False)
def reconnect_storm(lab: Lab) -> None:
    """After a server restart all 100 clients reconnect, each by the time its own pause is over.

    A stateful server dies and restarts ten seconds later without its sessions; on sockets 40 clients wait for a
    second. Each client dials at once and is refused, then after pauses of 0.2 s, 0.4 s and so on, neither more
    often nor less. A pause is no longer than the time since the first refusal, so within ten seconds of the
    restart all are connected. Each gets one remote_reset event, and its next message arrives.
    """
    clients, away_s = (40, 1.0) if lab.real_time else (100, 10.0)
    _, pairs = servers_and_clients(lab, 1, clients, ("stateful_server", "lossless_client"), {})
    for client, server in pairs:
        lab.send(client, server)
    for client, server in pairs:
        lab.expect_delivered(client, server, 1)
    lab.kill("s0")
    lab.wait(away_s)
    lab.revive("s0")
    revived_s = lab.history.of("process")[-1].time_s
    for client, server in pairs:
        lab.expect_event(client, server, "connect", 2)
        lab.send(client, server)
    for client, server in pairs:
        lab.expect_delivered(client, server, 2)
    for client, server in pairs:
        resets = lab.events(client, server, EventKind.REMOTE_RESET)
        lab.require(resets == 1, f"{client} has lost its session once, it got {resets} remote_reset events")
        back_s = lab.records(client, "event", event="connect")[-1].time_s - revived_s
        most_s = away_s + (10.0 if lab.real_time else 0.5)
        lab.require(back_s <= most_s, f"{client} is back after {back_s} s, {most_s} s are enough")
        lab.expect_backoff(client, 2 if lab.real_time else 5, first=1)
    lab.settle(within_s=60)
