"""PK: processes that are killed, stopped and started again."""

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.lab.ways import V2_WAYS, ways
from toolkit.scenarios.processes import PK
from toolkit.scenarios.scenario import ON_SOCKETS

_EVERY_PAIR = {name: {"pair": pair} for name, pair in PAIRS.items()}
_FOUR_WAYS = ways("v2-crc", "v2-secure", "v2-crc-w2", "v1")
_PATIENT_S = 40.0

HANDSHAKE_FRAMES = (
    *("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE"),
    *("AUTH_SIGNATURE", "CLIENT_IDENT", "SERVER_IDENT"),
)
"""The frames of a cephx handshake on v2, of both sides, in order."""


def _meet_again(lab: Lab) -> None:
    """Wait until two processes, one of which was restarted, exchange messages in a new session.

    Messages queued for the old session may be lost with it, so the first message is not required to arrive.
    """
    lab.send("a", "b")
    lab.wait(0.1)
    lab.expect_state("a", "b", "READY", within_s=_PATIENT_S)
    lab.expect_acked("a")
    before = lab.delivered("a", "b"), lab.delivered("b", "a")
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", before[0] + 3, within_s=_PATIENT_S)
    lab.send("b", "a", 3)
    lab.expect_delivered("b", "a", before[1] + 3, within_s=_PATIENT_S)
    lab.settle(within_s=_PATIENT_S)


@PK.scenario(
    "PK-01",
    "kill9_client_server",
    ways=_FOUR_WAYS,
    processes=True,
    cases={
        f"{victim} {moment:g} s {name}": {"victim": victim, "moment_s": moment, "pair": PAIRS[name]}
        for victim in "ab"
        for moment in (0.0, 0.003, 0.02)
        for name in PAIRS
    },
)
def kill9_client_server(lab: Lab, victim: str, moment_s: float, pair: Pair) -> None:
    """After one of two processes is killed in mid-traffic and restarts, both exchange messages in a new session.

    Both are sending when one of them is killed. The survivor's link breaks: a lossy session ends with a reset
    event, a lossless one waits or dials. The restarted process and the survivor open a new session, and no session
    of the old process is left.
    """
    pair.start(lab, ms_max_backoff=1.0)
    survivor = "b" if victim == "a" else "a"
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.send("a", "b", 20)
    lab.send("b", "a", 20)
    lab.wait(moment_s)
    lab.kill(victim)
    lab.wait(0.3)
    if not pair.lossless:
        lab.expect_event(survivor, victim, "reset")
    lab.revive(victim)
    _meet_again(lab)
    lab.require(lab.snapshot(survivor)["registry"] <= 1, "a session of the dead process lives on")


@PK.scenario(
    "PK-02",
    "restart_same_address",
    ways=_FOUR_WAYS,
    processes=True,
    cases={
        f"{nonce} nonce {name}": {"new_nonce": nonce == "new", "pair": PAIRS[name]}
        for nonce in ("same", "new")
        for name in PAIRS
    },
)
def restart_same_address(lab: Lab, new_nonce: bool, pair: Pair) -> None:  # noqa: FBT001 - a case
    """A process that restarts at its old address gets a new session, with the same or another nonce.

    With its old nonce it is the same peer without its sessions: the peer that resumes one gets remote_reset. With
    another nonce it is a new peer, and no remote_reset is raised.
    """
    pair.start(lab, ms_max_backoff=1.0)
    lab.connect("a", "b")
    lab.exchange(count=5)
    lab.kill("b")
    if not pair.lossless:
        lab.expect_event("a", "b", "reset")
    elif new_nonce:
        lab.mark_down("a", "b")
    lab.wait(0.2)
    lab.revive("b", new_nonce=new_nonce)
    _meet_again(lab)
    if pair.lossless and not new_nonce:
        lab.expect_event("a", "b", "remote_reset", 1)
    else:
        lab.expect_no_event("a", "b", "remote_reset")


@PK.scenario(
    "PK-03",
    "restart_loop",
    priority=2,
    ways=_FOUR_WAYS,
    cases={name: {"pair": PAIRS[name]} for name in ("peers", "reuse", "client")},
)
def restart_loop(lab: Lab, pair: Pair) -> None:
    """A process that crashes every two seconds is connected again after its last start.

    Its peer has a message to send all the time. Soon after the last start both are connected and messages pass;
    the peer has one session.
    """
    times, period_s = (10, 0.1) if lab.real_time else (150, 2.0)
    pair.start(lab, ms_initial_backoff=0.1 * period_s, ms_max_backoff=2.5 * period_s)
    lab.connect("a", "b")
    for _ in range(times):
        lab.send("a", "b")
        lab.wait(0.75 * period_s)
        lab.kill("b")
        lab.wait(0.25 * period_s)
        lab.revive("b")
    lab.wait(7.5 * period_s)
    _meet_again(lab)
    for name in "ab":
        lab.require(lab.snapshot(name)["registry"] == 1, f"{name}: {lab.snapshot(name)['registry']} sessions")


@PK.scenario(
    "PK-04",
    "sigstop_short",
    priority=2,
    processes=True,
    ways=_FOUR_WAYS,
    cases={f"{node} {name}": {"node": node, "pair": PAIRS[name]} for node in "ab" for name in PAIRS},
)
def sigstop_short(lab: Lab, node: str, pair: Pair) -> None:
    """A process that is stopped for less than any timeout loses nothing.

    It is stopped in mid-traffic and continued: the link stays open, and every message arrives, only later.
    """
    pair.start(lab)
    lab.connect("a", "b")
    lab.exchange(count=2)
    dials = lab.dials("a") + lab.dials("b")
    lab.send("a", "b", 10)
    lab.send("b", "a", 10)
    lab.freeze(node)
    lab.wait(0.5 if lab.real_time else 5.0)
    lab.send(*(("a", "b") if node == "b" else ("b", "a")), 5)
    lab.thaw(node)
    lab.expect_delivered("a", "b", 12 + 5 * (node == "b"))
    lab.expect_delivered("b", "a", 12 + 5 * (node == "a"))
    lab.require(lab.dials("a") + lab.dials("b") == dials, "the link did not survive")
    lab.settle()


@PK.scenario(
    "PK-05",
    "sigstop_long",
    processes=True,
    ways=_FOUR_WAYS,
    cases={
        f"{node} {stop} {name}": {"node": node, "stop": stop, "pair": PAIRS[name]}
        for node in "ab"
        for stop in ("handshake", "idle")
        for name in ("peers", "client", "lossy")
    },
)
def sigstop_long(lab: Lab, node: str, stop: str, pair: Pair) -> None:
    """A process that is stopped beyond the timeouts reconnects when it goes on.

    It is stopped in a handshake for longer than the ready timeout, or in an open session for longer than the idle
    timeout: its peer has closed the link. When it goes on its socket is closed; lossless sessions lose nothing,
    and lossy ones end with a reset event.
    """
    ready_s, idle_s = (0.5, 1.0) if lab.real_time else (10.0, 900.0)
    pair.start(
        lab, ms_connection_ready_timeout=ready_s, ms_connection_idle_timeout=idle_s, ms_max_backoff=ready_s / 2
    )
    other = "b" if node == "a" else "a"
    if stop == "handshake":
        idents = (
            {"a": "CONNECT", "b": "CONNECT_REPLY"} if lab.is_v1 else {"a": "CLIENT_IDENT", "b": "SERVER_IDENT"}
        )
        point = f"{idents[other]} WRITE"
        lab.arm(other, point, "BLOCK")
        lab.dial("a", "b")
        lab.send("a", "b", 2)
        lab.expect_hit(other, point)
        lab.freeze(node)
        lab.unblock(other)
        lab.wait(2 * ready_s)
        lab.thaw(node)
        if lab.is_v1 and not pair.lossless:
            # A lossy session of msgr v1 ends with any fault after its first bytes (docs/protocol.md §3.8).
            lab.expect_event("a", "b", "reset")
            lab.send("a", "b", 2)
        lab.expect_delivered("a", "b", 2, within_s=_PATIENT_S)
        lab.settle(within_s=_PATIENT_S)
        return
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.freeze(node)
    lab.wait(1.4 * idle_s)
    lab.thaw(node)
    faults = [fault for fault in lab.history.node(other).of("fault") if "idle" in f"{fault['reason']}".lower()]
    lab.require(bool(faults), f"{other} never gave up the link")
    if pair.lossless:
        lab.send("a", "b", 2)
        lab.send("b", "a", 2)
        lab.expect_delivered("a", "b", 4, within_s=_PATIENT_S)
        lab.expect_delivered("b", "a", 4, within_s=_PATIENT_S)
    else:
        lab.expect_event("a", "b", "reset", within_s=_PATIENT_S)
        lab.connect("a", "b")
        lab.exchange(count=2)


@PK.scenario(
    "PK-06",
    "kill_during_handshake",
    priority=2,
    ways=V2_WAYS,
    cases={
        f"{victim} {frame}": {"victim": victim, "frame": frame} for victim in "ab" for frame in HANDSHAKE_FRAMES
    },
)
def kill_during_handshake(lab: Lab, victim: str, frame: str) -> None:
    """A process is killed at each step of the handshake; the survivor's link ends at once or by timeout.

    The sender of a frame is blocked just before it writes it. If it is killed, its peer sees the end of the stream
    and closes the link at once. If its peer is killed, it stays blocked and closes the link after
    ms_connection_ready_timeout, here two seconds. The next dial of the new process, or to it, succeeds.
    """
    timeout_s = 2.0
    PAIRS["client"].start(lab, ms_connection_ready_timeout=timeout_s, ms_max_backoff=0.5)
    sender = "a" if frame in {"AUTH_REQUEST", "AUTH_REQUEST_MORE", "CLIENT_IDENT"} else "b"
    point = "BANNER_WRITE" if frame == "BANNER" else f"{frame} WRITE"
    survivor = "b" if victim == "a" else "a"
    lab.arm(sender, point, "BLOCK")
    lab.dial("a", "b")
    lab.expect_hit(sender, point)
    began_s = lab.records(survivor, "link")[0].time_s
    lab.kill(victim)
    killed_s = lab.history.of("process")[-1].time_s
    lab.expect_broken(survivor, 1)
    fault = lab.records(survivor, "fault")[0]
    slack_s = 3.0 if lab.real_time else 0.1
    if survivor == sender:
        took_s = fault.time_s - began_s
        on_time = fault["reason"] == "READY_TIMEOUT" and -0.001 < took_s - timeout_s < slack_s
    else:
        took_s = fault.time_s - killed_s
        on_time = fault["reason"] != "READY_TIMEOUT" and took_s < slack_s
    lab.require(on_time, f"{survivor}'s link ended after {took_s} s: {fault['detail']}")
    lab.revive(victim)
    if victim == "a":
        lab.dial("a", "b")
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", 3, within_s=_PATIENT_S)
    lab.settle(within_s=_PATIENT_S)
    lab.require(lab.snapshot("b")["links"] == 1, f"b has {lab.snapshot('b')['links']} links")


@PK.scenario(
    "PK-10",
    "sighup_and_reconfig",
    priority=2,
    ways=V2_WAYS[:1],
    cases={
        "to secure": {"options": {"ms_cluster_mode": "secure", "ms_service_mode": "secure"}, "shown": "secure"},
        "compression": {
            "options": {"ms_osd_compress_mode": "force", "ms_osd_compress_min_size": 1},
            "shown": "compressed",
        },
    },
)
def sighup_and_reconfig(lab: Lab, options: dict[str, object], shown: str) -> None:
    """Options that change while a process runs apply to its next connections.

    An open connection keeps its mode and compression. After the next handshake the new options are in force, and
    no message is lost.
    """
    PAIRS["peers"].start(lab)
    lab.connect("a", "b")
    lab.exchange(count=3, size_bytes=5000)
    for name in "ab":
        lab.configure(name, **options)
    lab.exchange(count=3, size_bytes=5000)
    frames = lab.history.of("frame")
    before = sum(frame["length"] for frame in frames if frame["tag"] == "MESSAGE" and frame["direction"] == "tx")
    asked = [frame["fields"] for frame in frames if frame["tag"] == "AUTH_REQUEST"]
    lab.require(all(fields["preferred_modes"] == [1] for fields in asked), f"modes asked for before: {asked}")
    lab.cut("a", "b")
    lab.wait(0.1)
    lab.exchange(count=6, size_bytes=5000)
    frames = lab.history.of("frame")
    after = sum(frame["length"] for frame in frames if frame["tag"] == "MESSAGE" and frame["direction"] == "tx")
    asked = [frame["fields"] for frame in frames if frame["tag"] == "AUTH_REQUEST"]
    if shown == "secure":
        lab.require(asked[-1]["preferred_modes"] == [2], f"modes asked for after: {asked[-1]}")
    else:
        lab.require(after - before < before / 2, f"{after - before} bytes after {before}: nothing was compressed")
    lab.settle()


@PK.scenario(
    "PK-08",
    "fd_exhaustion",
    priority=2,
    backends=ON_SOCKETS,
    only="descriptors of a process",
    processes=True,
    ways=ways("v2-crc", "v1"),
)
def fd_exhaustion(lab: Lab) -> None:
    """A process without descriptors keeps its sessions, and dials once it has some.

    The process has reached its limit of open descriptors when it dials a third process: the dial fails, and the
    fault gives the reason. Its session with the second process goes on meanwhile. Once the limit is raised, the
    queued messages arrive.
    """
    for number, name in enumerate("abc"):
        lab.node(name, f"osd.{number}", "lossless_peer", ms_max_backoff=0.4)
    lab.start()
    lab.connect("a", "b")
    lab.exchange(count=2)
    lab.limit_descriptors("a", limited=True)
    lab.dial("a", "c")
    lab.send("a", "c", 3)
    lab.wait_until(lambda: bool(lab.faults("a")), "a dial fails")
    lab.require("Too many open files" in lab.last_fault("a"), f"it says why: {lab.last_fault('a')}")
    lab.exchange(count=5)
    lab.require(lab.delivered("a", "c") == 0, "nothing can have arrived")
    lab.limit_descriptors("a", limited=False)
    lab.expect_delivered("a", "c", 3)
    lab.expect_events("a", "b", connect=1)
    lab.settle()


_MIB = 1 << 20


@PK.scenario(
    "PK-09",
    "memory_pressure",
    priority=2,
    backends=ON_SOCKETS,
    only="memory of a process",
    processes=True,
    ways=ways("v2-crc", "v2-secure", "v1"),
)
def memory_pressure(lab: Lab) -> None:
    """A message that does not fit in memory breaks its link only.

    A process that can allocate 16 MiB more gets a message of 64 MiB from a peer. That link breaks, again and
    again; the session with a third process goes on. Once the limit is raised the message arrives.
    """
    for number, name in enumerate("abc"):
        lab.node(name, f"osd.{number}", "lossless_peer", ms_initial_backoff=0.1, ms_max_backoff=0.4)
    lab.start()
    lab.connect("a", "b")
    lab.connect("c", "b")
    lab.exchange(count=2)
    lab.exchange("c", "b", count=2)
    lab.limit_memory("b", 16 * _MIB)
    lab.send("a", "b", size_bytes=64 * _MIB)
    lab.wait_until(lambda: bool(lab.faults("b")), "the link breaks for want of memory")
    lab.require("memory" in lab.last_fault("b"), f"it says why: {lab.last_fault('b')}")
    lab.exchange("c", "b", count=5)
    lab.limit_memory("b", None)
    lab.expect_delivered("a", "b", 3)
    lab.expect_events("b", "c", accept=1)
    lab.exchange(count=2)
    lab.settle()
