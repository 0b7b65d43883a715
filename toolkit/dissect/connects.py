"""TCP connections to messengers that failed: refused, unanswered, or closed before a frame."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from toolkit.dissect.conduct import Outcome
from toolkit.dissect.stream import Stream

_CEPH_PORTS = frozenset({3300, 6789, *range(6800, 7569)})


@dataclass(slots=True)
class FailedConnects:
    """Attempts of one host to connect to one address, all with the same outcome."""

    client: str
    """Address of the host, without the port, which differs between attempts."""
    server: str
    outcome: Outcome
    ending: str
    """Outcome of the last attempt, in words."""
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    first_packet_stream: int = -1
    """Stream of the first attempt."""


def failed_connects(
    streams: Iterable[Stream], linked: Collection[int], servers: Collection[str], end_ns: int
) -> list[FailedConnects]:
    """Return the attempts without any frame, grouped, in the order of each group's first attempt.

    Args:
        streams: all streams of a capture.
        linked: indexes of the streams that are links.
        servers: addresses at which messengers listen; Ceph's default ports always count.
        end_ns: time of the last packet, in nanoseconds.
    """
    found: dict[tuple[str, str, Outcome], FailedConnects] = {}
    for stream in streams:
        port = stream.server.rpartition(":")[2]
        if stream.index in linked or stream.introduces:
            continue
        if not (int(port) in _CEPH_PORTS or stream.server in servers):
            continue
        outcome = stream.tcp.outcome(end_ns)
        if not stream.tcp.syns and outcome not in {Outcome.REFUSED, Outcome.UNANSWERED}:
            continue  # it began before the capture
        client = stream.client.rpartition(":")[0]
        key = client, stream.server, outcome
        known = found.setdefault(
            key, FailedConnects(*key, "", first_ns=stream.tcp.began_ns, first_packet_stream=stream.index)
        )
        known.count += 1
        known.last_ns = stream.tcp.last_ns
        known.ending = stream.tcp.ending(client, stream.server, end_ns)
    return list(found.values())
