"""TCP connections to messengers that came to nothing: refused, unanswered, closed before a frame."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from toolkit.dissect.conduct import Outcome
from toolkit.dissect.stream import Stream

_CEPH_PORTS = frozenset({3300, 6789, *range(6800, 7569)})


@dataclass(slots=True)
class FailedConnects:
    """Attempts of one host to connect to one address, all with the same outcome."""

    client: str
    """The host, without a port: each attempt has another."""
    server: str
    outcome: Outcome
    told: str
    """What became of the last one, in words."""
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    first_packet_stream: int = -1
    """Stream of the first attempt."""


def failed_connects(
    streams: Iterable[Stream], linked: Collection[int], servers: Collection[str], end_ns: int
) -> list[FailedConnects]:
    """The attempts that no frame came of, in the order of the first of each kind.

    Args:
        streams: all of a capture.
        linked: those that are links, by index.
        servers: addresses at which messengers listen; default ports count in any case.
        end_ns: time of the last packet.
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
        known.told = stream.tcp.told(client, stream.server, end_ns)
    return list(found.values())
