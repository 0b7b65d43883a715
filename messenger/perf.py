"""Performance counters of a messenger, under the names of Ceph's counters.

The counters of a host are plain numbers that the core adds to once per batch of messages, never per message.
``perf_dump`` formats them like ``ceph daemon NAME perf dump``, ``prometheus`` like Ceph's exporter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from messenger.cephx.exchange import ConMode
from messenger.errors import FaultReason
from messenger.session.states import SessionState
from messenger.session.throttle import Throttle

if TYPE_CHECKING:
    from messenger.host import LinkHost
    from messenger.link import Link
    from messenger.session.session import Session

Group = dict[str, "float | dict[str, float]"]
PerfDump = dict[str, Group]
"""Groups of counters by name. A counter is a number, or a time counter with count, sum and mean."""


@dataclass(slots=True)
class Counters:
    """Counters of one host since its start. Bytes are those of closed links; see :func:`with_links`."""

    recv_messages: int = 0
    send_messages: int = 0
    recv_bytes: int = 0
    send_bytes: int = 0
    recv_encrypted_bytes: int = 0
    send_encrypted_bytes: int = 0
    created_connections: int = 0
    batches_sent: int = 0
    queued_s: float = 0.0
    """Sum over all batches of the time that the oldest message of the batch was queued."""
    unhandled_messages: int = 0
    unsendable_messages: int = 0
    old_messages: int = 0
    skipped_messages: int = 0
    accept_failures: int = 0
    """Number of connections that could not be accepted because descriptors or memory were lacking."""
    faults: Counter[FaultReason] = field(default_factory=Counter)
    """Number of broken links by reason."""


def add_link(counters: Counters, link: "Link") -> None:
    """Add the bytes of a link."""
    counters.recv_bytes += link.rx_offset
    counters.send_bytes += link.tx_offset
    if link.con_mode is ConMode.SECURE and any(link.opened_at):
        received_before, sent_before = link.opened_at
        counters.recv_encrypted_bytes += link.rx_offset - received_before
        counters.send_encrypted_bytes += link.tx_offset - sent_before


def with_links(counters: Counters, links: "Iterable[Link]") -> Counters:
    """A copy of the counters that includes the bytes of open links."""
    total = replace(counters)
    for link in links:
        add_link(total, link)
    return total


def worker_group(counters: Counters, active_connections: int) -> Group:
    """The counters of one messenger thread, under Ceph's names."""
    return {
        "msgr_recv_messages": counters.recv_messages,
        "msgr_send_messages": counters.send_messages,
        "msgr_recv_bytes": counters.recv_bytes,
        "msgr_send_bytes": counters.send_bytes,
        "msgr_created_connections": counters.created_connections,
        "msgr_active_connections": active_connections,
        "msgr_send_messages_queue_lat": time_average(counters.batches_sent, counters.queued_s),
        "msgr_recv_encrypted_bytes": counters.recv_encrypted_bytes,
        "msgr_send_encrypted_bytes": counters.send_encrypted_bytes,
        "msgr_connection_ready_timeouts": counters.faults[FaultReason.READY_TIMEOUT],
        "msgr_connection_idle_timeouts": counters.faults[FaultReason.IDLE_TIMEOUT],
    }


_ODDITIES = (
    "unhandled_messages",
    "unsendable_messages",
    "old_messages",
    "skipped_messages",
    "accept_failures",
)


def session_group(counters: Iterable[Counters]) -> Group:
    """Counters of what Ceph's messenger only logs: invalid or unhandled messages, and faults by reason."""
    hosts = list(counters)
    group: Group = {name: sum(getattr(one, name) for one in hosts) for name in _ODDITIES}
    for reason in FaultReason:
        if faults := sum(one.faults[reason] for one in hosts):
            group[f"fault_{reason.name.lower()}"] = faults
    return group


def gauge_group(sessions: "Sequence[Session]", unwritten_bytes: int, half_open_links: int) -> Group:
    """The current state: sessions by state, and the bytes they hold.

    Args:
        sessions: all sessions that are not closed.
        unwritten_bytes: bytes of frames that were built but not written to the kernel.
        half_open_links: accepted links whose handshake is not finished.
    """
    states = Counter(session.state for session in sessions)
    by_state: Group = {f"sessions_{state.value.lower()}": states[state] for state in SessionState if states[state]}
    return by_state | {
        "half_open_links": half_open_links,
        "queued_bytes": sum(session.queue.queued_bytes for session in sessions),
        "unwritten_bytes": unwritten_bytes,
        "unacknowledged_bytes": sum(session.queue.unacknowledged_bytes for session in sessions),
    }


def throttle_group(throttles: Iterable[Throttle]) -> Group:
    """The counters of one throttle, summed over the hosts that share it."""
    parts = list(throttles)
    gets = sum(one.gets for one in parts)
    put_sum = sum(one.put_sum for one in parts)
    return {
        "val": sum(one.value for one in parts),
        "max": sum(one.limit for one in parts),
        "get_started": 0,
        "get": gets,
        "get_sum": put_sum + sum(one.value for one in parts),
        "get_or_fail_fail": sum(one.refusals for one in parts),
        "get_or_fail_success": gets,
        "take": 0,
        "take_sum": 0,
        "put": sum(one.puts for one in parts),
        "put_sum": put_sum,
        "wait": time_average(sum(one.waits for one in parts), sum(one.waited_s for one in parts)),
    }


def time_average(count: int, sum_s: float) -> dict[str, float]:
    """A time counter, in seconds."""
    return {"avgcount": count, "sum": sum_s, "avgtime": sum_s / count if count else 0.0}


def perf_dump(name: str, hosts: Sequence["LinkHost"], active: Sequence[int], gauges: Group) -> PerfDump:
    """The counters of a messenger in the format of ``perf dump``.

    Args:
        name: name of the messenger in the group of the dispatch throttle.
        hosts: the home shard, then the others.
        active: number of connections of each host.
        gauges: see :func:`gauge_group`.
    """
    dump = {
        f"{_WORKER}{index}": worker_group(with_links(host.counters, host.links), count)
        for index, (host, count) in enumerate(zip(hosts, active, strict=True))
    }
    dump["msgr"] = session_group(host.counters for host in hosts)
    dump[_NOW] = gauges
    dump[f"throttle-msgr_dispatch_throttler-{name}"] = throttle_group([host.dispatch_throttle for host in hosts])
    dump[f"throttle-msgr_dispatch_messages-{name}"] = throttle_group([host.dispatch_messages for host in hosts])
    by_name: dict[str, list[Throttle]] = {}
    for host in hosts:
        for throttle in host.throttles:
            by_name.setdefault(throttle.name, []).append(throttle)
    return dump | {f"throttle-{throttle}": throttle_group(parts) for throttle, parts in by_name.items()}


# ---- Prometheus

_GAUGES = frozenset({"val", "max", "msgr_active_connections"})
_WORKER = "AsyncMessenger::Worker-"
_NOW = "msgr-now"


def prometheus(dump: PerfDump, daemon: str) -> str:
    """The counters as Prometheus text, with the names of Ceph's exporter.

    Args:
        dump: the result of ``perf_dump``.
        daemon: value of the label ``ceph_daemon``, for example ``osd.1``.
    """
    lines: dict[str, list[str]] = {}
    for group, counters in dump.items():
        prefix, labels = _identity(group, daemon)
        for counter, value in counters.items():
            for suffix, number in _values(value):
                name = f"ceph_{prefix}_{counter}{suffix}"
                kind = "gauge" if counter in _GAUGES or group == _NOW else "counter"
                lines.setdefault(name, [f"# TYPE {name} {kind}"]).append(f"{name}{{{labels}}} {number}")
    return "".join(f"{line}\n" for block in lines.values() for line in block)


def _identity(group: str, daemon: str) -> tuple[str, str]:
    """Metric prefix and labels of a group; the number of a worker becomes a label."""
    labels = f'ceph_daemon="{daemon}"'
    if group.startswith(_WORKER):
        return "AsyncMessenger_Worker", f'{labels},id="{group.removeprefix(_WORKER)}"'
    return group.replace("-", "_").replace(".", "_"), labels


def _values(value: "float | Mapping[str, float]") -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        yield "_sum", value["sum"]
        yield "_count", value["avgcount"]
    else:
        yield "", value
