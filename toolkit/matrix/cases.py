"""The steps of each case in each role, and the evidence that it requires. A case that returns has succeeded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from messenger.cephx.rotating import DEFAULT_SERVICE_TTL_S
from messenger.session.states import SessionState
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.matrix.ceph_client import PATIENCE_S, CephClient, until
from toolkit.matrix.evidence import Wire, require
from toolkit.matrix.ground import APP, MON, OSD, Trial
from toolkit.matrix.peer import Peer
from toolkit.matrix.table import Case, Role

Run = Callable[[Trial], None]
CASES: dict[tuple[Role, Case], Run] = {}
_LARGE_BYTES = 1 << 20
_TICKET_S = 6
"""Lifetime of tickets in the case ``rekey``; a client renews a ticket after half of it."""
_LIFETIME = "auth_service_ticket_ttl"
_LOGIN_NS = 2 * 10**9
"""Longest duration of the login's own messages on v1, in nanoseconds."""


def _case(role: Role, case: Case) -> Callable[[Run], Run]:
    def keep(run: Run) -> Run:
        CASES[role, case] = run
        return run

    return keep


def run_case(trial: Trial) -> None:
    """Run a trial's case.

    Raises:
        EvidenceMissing: evidence that the case requires is missing.
        MsgrError: a step of the case failed.
    """
    CASES[trial.cell.role, trial.cell.case](trial)


# ---- Ceph is the server: our client and real daemons


def _fill(trial: Trial, count: int, prefix: str, size_bytes: int = 4096) -> None:
    """Write objects, and require that all writes are acknowledged."""
    ended = trial.ground.app.command("fill", count=count, prefix=prefix, size_bytes=size_bytes, wait_s=PATIENCE_S)
    require(not ended["pending"] and not ended["failed"], f"writes are not done: {ended}")


def _verify(trial: Trial) -> None:
    """Require that every acknowledged write can be read back."""
    found = trial.ground.app.command("verify", wait_s=PATIENCE_S)
    require(found["checked"] and not found["wrong"], f"acknowledged and lost: {found}")
    trial.see(f"{found['checked']} objects that were acknowledged are read back, all as written")


@_case(Role.SERVER, Case.HANDSHAKE)
def _server_handshake(trial: Trial) -> None:
    trial.begin()
    _fill(trial, 1, "hello")
    trial.judge(MON, OSD)


@_case(Role.SERVER, Case.TRAFFIC)
def _server_traffic(trial: Trial) -> None:
    trial.begin()
    _fill(trial, 50, "small")
    _fill(trial, 2, "large", _LARGE_BYTES)
    _verify(trial)
    _require_operations(trial, trial.judge(MON, OSD), 52)


def _require_operations(trial: Trial, wire: Wire, least: int) -> None:
    asked, answered = len(wire.messages("osd_op")), len(wire.messages("osd_op_reply", "osd_opreply"))
    require(min(asked, answered) >= least, f"{asked} osd_op and {answered} replies in the capture, not {least}")
    trial.see(f"{asked} osd_op and {answered} replies in the capture")


@_case(Role.SERVER, Case.RECONNECT)
def _server_reconnect(trial: Trial) -> None:
    trial.begin()
    _fill(trial, 10, "before")
    trial.ground.app.command("fill", count=20, prefix="under", size_bytes=1 << 16, wait_s=0)
    trial.fault(f"reset {APP} {OSD}")
    _fill(trial, 10, "after")
    _verify(trial)
    faults = [record.fields["reason"] for record in trial.history("fault")]
    require(faults, "our client has noticed no fault")
    trial.see(f"our client noticed {', '.join(faults)}")
    _require_second_link(trial, trial.judge(MON, OSD))


def _require_second_link(trial: Trial, wire: Wire) -> None:
    links = wire.to(trial.ground.host_of(OSD))
    require(len(links) > 1, f"{len(links)} open link to the OSD in the capture, not two")
    trial.see(f"{len(links)} links to the OSD, each opened: the lossy session is followed by another")


@_case(Role.SERVER, Case.RESTART)
def _server_restart(trial: Trial) -> None:
    trial.begin()
    _fill(trial, 10, "before")
    trial.cluster.nodes[OSD].stop()
    put = trial.ground.app.command("put", oid="meanwhile", text="waits", wait_s=0)
    require(put["state"] == "pending", f"a write to an OSD that is down: {put}")
    trial.restart_osd()
    _fill(trial, 10, "after")
    _verify(trial)
    _require_new_nonce(trial, trial.judge(MON, OSD))


def _require_new_nonce(trial: Trial, wire: Wire) -> None:
    addresses = {session.parties[1].address for session in _osd_sessions(trial, wire)}
    require(len(addresses) > 1, f"the OSD had one address in the capture: {addresses}")
    trial.see(f"sessions with the OSD at {' and '.join(sorted(addresses))}")


@_case(Role.SERVER, Case.REKEY)
def _server_rekey(trial: Trial) -> None:
    with _short_tickets(trial):
        trial.begin()
        _fill(trial, 5, "first")
        _outlast_ticket(trial)
        trial.fault(f"reset {APP} {OSD}")
        _fill(trial, 5, "second")
        _verify(trial)
    _require_renewal(trial, trial.judge(MON, OSD))


@contextmanager
def _short_tickets(trial: Trial) -> Iterator[None]:
    """Make a real monitor issue tickets with a lifetime of a few seconds."""
    mon = trial.cluster.nodes[MON]
    before = mon.command("config get", var=_LIFETIME)[_LIFETIME]
    mon.command("config set", var=_LIFETIME, val=[str(_TICKET_S)])
    try:
        yield
    finally:
        mon.command("config set", var=_LIFETIME, val=[str(before)])


def _outlast_ticket(trial: Trial) -> None:
    """Wait until a ticket issued before has expired."""
    began_s = trial.cluster.now()
    until(lambda: trial.cluster.now() > began_s + _TICKET_S, "the first ticket expires")


def _require_renewal(trial: Trial, wire: Wire) -> None:
    """Require links to the OSD by tickets of one identity, the last link after the first ticket had expired."""
    used: dict[int, list[tuple[float, float]]] = {}
    for record in trial.history("auth"):
        if (left_s := record.fields["ticket_left_s"]) is not None:
            used.setdefault(record.fields["global_id"], []).append((record.time_s, left_s))
    require(used, "no link was opened by a ticket")
    longest = max(used.values(), key=lambda uses: uses[-1][0] - uses[0][0])
    tickets = [f"{left_s:.1f}" for _, left_s in longest]
    require(all(0 < left_s <= _TICKET_S for _, left_s in longest), f"tickets were good for another {tickets} s")
    require(longest[-1][0] > sum(longest[0]), f"no link was opened by a second ticket: {tickets} s were left")
    opened_ns = [link.ready_ns for link in wire.to(trial.ground.host_of(MON)) if link.ready_ns is not None]
    logged_in_ns = min(opened_ns) + _LOGIN_NS
    renewals = sum(frame.time_ns > logged_in_ns for frame in wire.messages("auth"))
    require(renewals, "no request for tickets on the open session with the monitor")
    trial.see(f"{renewals} requests for tickets on the open session; tickets used were good for {tickets} s")


def _server_loss(trial: Trial, percent: int) -> None:
    trial.begin()
    _fill(trial, 5, "before")
    for node in (OSD, MON):
        trial.fault(f"link {APP} {node} loss={percent} --both-ways")
    for turn in range(5):
        _fill(trial, 60, f"lossy{turn}-")
    trial.fault("heal")
    _verify(trial)
    _require_losses(trial, trial.judge(MON, OSD))


def _require_losses(trial: Trial, wire: Wire) -> None:
    require(wire.repeated_segments, "no segment was sent again in the capture: nothing was lost")
    trial.see(f"{wire.repeated_segments} TCP segments were sent again")


@_case(Role.SERVER, Case.LOSS_1)
def _server_loss_1(trial: Trial) -> None:
    _server_loss(trial, 1)


@_case(Role.SERVER, Case.LOSS_10)
def _server_loss_10(trial: Trial) -> None:
    _server_loss(trial, 10)


# ---- Ceph is the client: unmodified programs and our embedded daemons


def _content(size_bytes: int) -> bytes:
    return (b"0123456789abcdef" * (size_bytes // 16 + 1))[:size_bytes]


@_case(Role.CLIENT, Case.HANDSHAKE)
def _client_handshake(trial: Trial) -> None:
    client = CephClient(trial)
    shown = client.run("ceph", "-s")
    require("HEALTH_OK" in shown, f"ceph -s: {shown}")
    trial.see(client.run("rados", "--version").strip())
    client.round_trip("hello", b"hello")
    trial.judge(MON, OSD)


@_case(Role.CLIENT, Case.TRAFFIC)
def _client_traffic(trial: Trial) -> None:
    client = CephClient(trial)
    for size_bytes in (0, 1, 4096, 4 * _LARGE_BYTES + 1):
        client.round_trip(f"sized{size_bytes}", _content(size_bytes))
    listed = set(client.rados("ls").split())
    require({"sized0", "sized4096"} <= listed, f"rados ls: {sorted(listed)}")
    _require_operations(trial, trial.judge(MON, OSD), 8)


@_case(Role.CLIENT, Case.RECONNECT)
def _client_reconnect(trial: Trial) -> None:
    client, osd = CephClient(trial), trial.cluster.nodes[OSD]
    point = "MESSAGE WRITE" if trial.cell.protocol == "v2" else "MSG WRITE"
    written = b""
    for number in range(3):
        osd.command("arm", point=point, action="FAULT", nth=1 + number % 2)
        written += (more := f"<{number}>".encode())
        client.rados("append", "log", str(client.file(more)))
        hits = osd.command("hits", point=point)["hits"]
        osd.command("disarm")
        trial.see(f"append {number}: {hits} cuts as the OSD was to answer")
    require(any("cuts" in line and not line.endswith(": 0 cuts") for line in trial.evidence), "nothing was cut")
    back = client.rados("get", "log", "-")
    require(back.encode() == written, f"appended {written!r}, there is {back!r}")
    trial.see(f"after the cuts the object has each append once: {back}")
    wire = trial.judge(MON, OSD)
    links, least = wire.to(trial.ground.host_of(OSD)), 5
    require(len(links) >= least, f"{len(links)} links to the OSD of 4 programs: none has dialled again")
    trial.see(f"{len(links)} links to the OSD of 4 programs: the lossy session is followed by another")


@_case(Role.CLIENT, Case.RESTART)
def _client_restart(trial: Trial) -> None:
    client, osd = CephClient(trial), trial.cluster.nodes[OSD]
    client.round_trip("before", b"before")
    # a process killed between the two records of one event has written only the first record
    host = trial.ground.host_of(APP)
    until(
        lambda: not any(host in one["addrs"] for one in osd.command("sessions")["sessions"]),
        "its clients are gone",
    )
    osd.kill()
    dials = len(trial.history("link"))
    put = client.in_background("put", "meanwhile", str(client.file(b"meanwhile")))
    until(lambda: len(trial.history("link")) > dials, "their client is there while the OSD is down")
    require(put.is_running, f"their client did not wait for the OSD: {put.errors}")
    osd.start()
    osd.wait_ready()
    put.require_end()
    require(client.rados("get", "meanwhile", "-") == "meanwhile", "what was written meanwhile is not there")
    trial.see("a write that began while the OSD was down was done when it was back, and read back")
    _require_new_nonce(trial, trial.judge(MON, OSD))


@_case(Role.CLIENT, Case.REKEY)
def _client_rekey(trial: Trial) -> None:
    client, mon = CephClient(trial), trial.cluster.nodes[MON]
    mon.command("configure", options={_LIFETIME: _TICKET_S})
    try:
        client.rados("put", "watched", str(client.file(b"watched")))
        with client.watching("watched") as watch:
            _outlast_ticket(trial)
            trial.fault(f"reset {APP} {OSD}")
            client.rados("notify", "watched", "renewed")
            require(watch.is_running, f"the program that watches has ended early: {watch.errors}")
        require("NOTIFY" in watch.output, f"the program that watches was not notified: {watch.output}")
    finally:
        mon.command("configure", options={_LIFETIME: DEFAULT_SERVICE_TTL_S})
    trial.see("rados watch was notified after its link was reset")
    _require_renewal(trial, trial.judge(MON, OSD))


def _client_loss(trial: Trial, percent: int) -> None:
    client = CephClient(trial)
    for node in (OSD, MON):
        trial.fault(f"link {APP} {node} loss={percent} --both-ways")
    # incompressible content, so that compressed links also have enough packets to lose
    client.round_trip("lossy", Random(percent).randbytes(2 * _LARGE_BYTES))
    _require_losses(trial, trial.judge(MON, OSD))


@_case(Role.CLIENT, Case.LOSS_1)
def _client_loss_1(trial: Trial) -> None:
    _client_loss(trial, 1)


@_case(Role.CLIENT, Case.LOSS_10)
def _client_loss_10(trial: Trial) -> None:
    _client_loss(trial, 10)


# ---- both are OSDs


def _resumptions(trial: Trial, wire: Wire) -> int:
    """Count the links that resumed the session, by the frames in the capture."""
    if trial.cell.protocol == "v2":
        asked, granted = wire.frames("SESSION_RECONNECT"), wire.frames("SESSION_RECONNECT_OK")
        return min(len(asked), len(granted))
    connects = [link.connect for link in wire.to(trial.ground.host_of(OSD)) if link.connect is not None]
    return sum(int(str(connect.fields.get("connect_seq", 0))) > 0 for connect in connects)


def _require_resumption(trial: Trial, wire: Wire) -> None:
    found = _resumptions(trial, wire)
    how = (
        "SESSION_RECONNECT, granted by SESSION_RECONNECT_OK"
        if trial.cell.protocol == "v2"
        else "connect_seq above 0"
    )
    require(found, f"no {how} in the capture")
    trial.see(f"the session went on {found} times: {how}")


def _osd_sessions(trial: Trial, wire: Wire) -> list[SessionView]:
    links = set(wire.to(trial.ground.host_of(OSD)))
    return [session for session in wire.sessions if links.intersection(session.links)]


def _require_once(trial: Trial, wire: Wire, count: int, resent: int = 0) -> None:
    """Require ``count`` pings with different seqs in one session, ``resent`` of them replayed on another link."""
    sessions = _osd_sessions(trial, wire)
    require(len(sessions) == 1, f"{len(sessions)} sessions with the OSD in the capture, not one")
    outbox = sessions[0].parties[0].outbox
    require(len(outbox.messages) == count, f"{len(outbox.messages)} messages in the session, not {count}")
    require(not outbox.missing, f"{outbox.missing} messages are missing in the capture")
    require(len(outbox.resent) >= resent, f"{len(outbox.resent)} messages were sent again, not {resent}")
    trial.see(f"{count} messages with seqs of their own, {len(outbox.resent)} of them sent again on another link")


@_case(Role.PEER, Case.HANDSHAKE)
def _peer_handshake(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(1)
        peer.wait_acked()
    wire = trial.judge(OSD)
    _require_once(trial, wire, 1)


@_case(Role.PEER, Case.TRAFFIC)
def _peer_traffic(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        for _ in range(10):
            peer.send(50)
            peer.wait_acked()
    _require_once(trial, trial.judge(OSD), 500)


@_case(Role.PEER, Case.RECONNECT)
def _peer_reconnect(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(10)
        peer.wait_acked()
        peer.send(10)
        trial.fault(f"reset {APP} {OSD}")
        peer.send(10)
        peer.wait_acked()
    wire = trial.judge(OSD)
    _require_resumption(trial, wire)
    _require_once(trial, wire, 30)


@_case(Role.PEER, Case.REPLAY)
def _peer_replay(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(5)
        peer.wait_acked()
        trial.fault(f"partition {APP} {OSD} --one-way")
        sent = _sent(trial)
        peer.send(10)
        until(lambda: _sent(trial) >= sent + 10, "all are on the wire")
        require(peer.unacked(peer.connection) == 10, "messages are acknowledged although none can arrive")
        trial.fault(f"reset {APP} {OSD}")
        trial.fault(f"undo partition {APP} {OSD} --one-way")
        peer.wait_acked()
    wire = trial.judge(OSD)
    _require_resumption(trial, wire)
    _require_once(trial, wire, 15, resent=10)


def _sent(trial: Trial) -> int:
    frames = [record.fields for record in trial.history("frame")]
    return sum(fields["direction"] == "tx" and fields["tag"] in {"MESSAGE", "MSG"} for fields in frames)


@_case(Role.PEER, Case.STANDBY)
def _peer_standby(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(5)
        peer.wait_acked()
        trial.fault(f"reset {APP} {OSD}")
        peer.wait(lambda each: each.state is SessionState.STANDBY, "the session stands by")
        trial.see("with nothing to send our side stood by")
        peer.send(5)
        peer.wait_acked()
    wire = trial.judge(OSD)
    _require_resumption(trial, wire)
    _require_once(trial, wire, 10)


@_case(Role.PEER, Case.RESET)
def _peer_reset(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(5)
        peer.wait_acked()
        peer.reopen()
        peer.send(7)
        peer.wait_acked()
    wire = trial.judge(OSD)
    sessions = _osd_sessions(trial, wire)
    counts = sorted(len(session.parties[0].outbox.messages) for session in sessions)
    seqs = [min(session.parties[0].outbox.messages, default=0) for session in sessions]
    require(counts == [5, 7], f"sessions with {counts} messages in the capture, not with 5 and 7")
    trial.see(f"a second session under the same address; the first seqs were {seqs}")
    require(trial.cell.protocol == "v1" or seqs == [1, 1], "the second session did not begin at seq 1")


@_case(Role.PEER, Case.RESTART)
def _peer_restart(trial: Trial) -> None:
    with Peer.of(trial) as peer:
        peer.send(5)
        peer.wait_acked()
        trial.cluster.nodes[OSD].stop()
        trial.restart_osd()
        peer.reopen(trial.osd_cluster_addrs())
        peer.send(5)
        peer.wait_acked()
    _require_new_nonce(trial, trial.judge(OSD))


@_case(Role.PEER, Case.REKEY)
def _peer_rekey(trial: Trial) -> None:
    with _short_tickets(trial), Peer.of(trial, renews=True) as peer:
        peer.send(5)
        peer.wait_acked()
        _outlast_ticket(trial)
        trial.fault(f"reset {APP} {OSD}")
        peer.send(5)
        peer.wait_acked()
    wire = trial.judge(MON, OSD)
    _require_renewal(trial, wire)
    _require_resumption(trial, wire)
    _require_once(trial, wire, 10)


def _peer_loss(trial: Trial, percent: int, rounds: int) -> None:
    with Peer.of(trial) as peer:
        trial.fault(f"link {APP} {OSD} loss={percent} --both-ways")
        for _ in range(rounds):
            peer.send(5)
            peer.wait_acked()
    wire = trial.judge(OSD)
    _require_losses(trial, wire)
    _require_once(trial, wire, 5 * rounds)


@_case(Role.PEER, Case.LOSS_1)
def _peer_loss_1(trial: Trial) -> None:
    _peer_loss(trial, 1, 250)


@_case(Role.PEER, Case.LOSS_10)
def _peer_loss_10(trial: Trial) -> None:
    _peer_loss(trial, 10, 50)
