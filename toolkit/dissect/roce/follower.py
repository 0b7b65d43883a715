"""Assigns RoCE packets to links: by the records over TCP, or by what packets acknowledge."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from operator import attrgetter

from messenger.errors import DecodeError
from messenger.transport.rdma.record import RECORD_BYTES, Record, can_begin
from toolkit.dissect.direction import Direction
from toolkit.dissect.keys.recent import Recent
from toolkit.dissect.roce.conduct import QueuePairConduct
from toolkit.dissect.roce.headers import PSN_MASK, RESPONSES
from toolkit.dissect.roce.lane import FARTHEST_PACKETS
from toolkit.dissect.roce.link import QueuePairLink, RocePacket
from toolkit.dissect.roce.roles import has_roles, is_client
from toolkit.dissect.stream import End, Run, Stream, StreamEvent
from toolkit.dissect.tcp.internet import ROCE_PORT
from toolkit.dissect.tcp.outlet import EventCollector

MOST_HELD_PACKETS = 256
"""Number of packets of a direction that wait until the direction that answers it is known."""
_MOST_UNPAIRED = 1024
_HALF = (PSN_MASK + 1) >> 1
_packet_of = attrgetter("packet")

Address = tuple[int, ...]
_Way = tuple[Address, Address, int]
"""Source, target and number of the receiving queue pair."""


@dataclass(slots=True)
class _Bootstrap:
    """A TCP connection that may introduce two queue pairs to each other."""

    heads: dict[Direction, bytearray] = field(default_factory=lambda: {each: bytearray() for each in Direction})
    records: dict[Direction, Record] = field(default_factory=dict)
    link: QueuePairLink | None = None


@dataclass(slots=True)
class _Unpaired:
    """Packets from one address to a queue pair at another, whose link is unknown."""

    packets: list[RocePacket] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Sequence numbers of its requests."""
    answered: set[int] = field(default_factory=set)
    """Sequence numbers of the other direction that it answers."""

    def answers(self, other: "_Unpaired") -> bool:
        """True if one of the two directions answers packets of the other."""
        return bool(self.answered & other.sent) or bool(other.answered & self.sent)


@dataclass(frozen=True, slots=True)
class _Note:
    """What a TCP connection shows of the link that it introduces."""

    packet: int
    time_ns: int
    bootstrap: _Bootstrap
    stream: Stream
    end: Direction | None = None
    """The direction that has ended; None if both records have come."""


class QueuePairFollower:
    """Assembles the byte streams of reliable queue pairs.

    Args:
        add: numbers and lists the stream of a new link.
        most_links: limit of the links and TCP connections that are tracked at a time.
        follows_unknown: True to follow also queue pairs whose introduction the capture lacks.
    """

    def __init__(self, add: Callable[[Stream], None], most_links: int, *, follows_unknown: bool) -> None:
        self._add = add
        self._most_links = most_links
        self._follows_unknown = follows_unknown
        self._outlet = EventCollector()
        self._bootstraps: Recent[int, _Bootstrap | None] = Recent(most_links)
        """By TCP stream; None for streams whose first bytes are no record."""
        self._notes: list[_Note] = []
        self._ways: dict[tuple[Address, int], tuple[QueuePairLink, int]] = {}
        """By address and number of the receiving queue pair: its link, and the side that sends to it."""
        self._unpaired: dict[_Way, _Unpaired] = {}
        """By source, target and number of the receiving queue pair."""
        self._ending: dict[QueuePairLink, None] = {}
        """Links that are still open although their TCP connection has ended."""
        self._time_ns = 0
        self._packet = 0

    # ---- the TCP connections

    def watch(self, events: Iterable[StreamEvent]) -> None:
        """Look for records in the events of TCP connections. Call it before :meth:`feed` with the same packets."""
        for event in events:
            index = event.stream.index
            if index not in self._bootstraps:
                self._bootstraps.put(index, _Bootstrap() if isinstance(event, Run) else None)
            bootstrap = self._bootstraps.get(index)
            if bootstrap is None:
                continue
            if isinstance(event, Run):
                self._read(bootstrap, event)
            elif isinstance(event, End):
                note = _Note(event.packet, event.time_ns, bootstrap, event.stream, event.direction)
                self._notes.append(note)
            else:
                self._bootstraps.put(index, None)

    def _read(self, bootstrap: _Bootstrap, run: Run) -> None:
        head = bootstrap.heads[run.direction]
        if len(head) >= RECORD_BYTES:
            return
        head += run.data[: RECORD_BYTES - len(head)]
        if not can_begin(bytes(head)):
            self._bootstraps.put(run.stream.index, None)
            return
        if len(head) < RECORD_BYTES:
            return
        try:
            bootstrap.records[run.direction] = Record.decode(bytes(head))
        except DecodeError:
            self._bootstraps.put(run.stream.index, None)
            return
        if len(bootstrap.records) == len(Direction):
            run.stream.introduces = True
            self._notes.append(_Note(run.packets[0], run.times_ns[0], bootstrap, run.stream))

    def _heed_notes(self, packet: int | None) -> None:
        """Apply the notes of TCP connections before a packet; None: all notes."""
        while self._notes and (packet is None or self._notes[0].packet < packet):
            note = self._notes.pop(0)
            self._outlet.row = note.packet
            link = note.bootstrap.link
            if note.end is None:
                self._introduce(note)
            elif link is not None:
                link.end_of_tcp(0 if note.end is Direction.TO_SERVER else 1, note.time_ns, note.packet)
                self._ending[link] = None

    def _introduce(self, note: _Note) -> None:
        records = [note.bootstrap.records[each] for each in (Direction.TO_SERVER, Direction.TO_CLIENT)]
        client, server = records
        psns = client.psn & PSN_MASK, server.psn & PSN_MASK
        ends = note.stream.client, note.stream.server
        link = note.bootstrap.link = self._new_link(ends, (client.qpn, server.qpn), psns)
        for side, receiver in enumerate((server, client)):
            self._lead(_address_of(receiver.gid), receiver.qpn, link, side)
        ways = {(_address_of(server.gid), server.qpn): 0, (_address_of(client.gid), client.qpn): 1}
        known = [key for key in self._unpaired if key[1:] in ways]
        waited = [(one, ways[key[1:]]) for key in known for one in self._unpaired.pop(key).packets]
        for one, side in sorted(waited, key=lambda each: each[0].packet):
            link.take(side, one)

    def _new_link(
        self, ends: tuple[str, str], pairs: tuple[int, int], psns: tuple[int, int] | None
    ) -> QueuePairLink:
        conduct = QueuePairConduct()
        stream = Stream(-1, *ends, psns is not None, conduct, queue_pairs=pairs)
        self._add(stream)
        return QueuePairLink(stream, conduct, self._outlet, psns)

    def _lead(self, target: Address, qpn: int, link: QueuePairLink, side: int) -> None:
        """Assign packets to a queue pair to a link from now on."""
        before = self._ways.pop((target, qpn), None)
        if before is not None:
            before[0].finish(self._time_ns, self._packet)
        self._ways[target, qpn] = link, side
        if len(self._ways) > 2 * self._most_links:
            key = next(iter(self._ways))
            self._ways.pop(key)[0].finish(self._time_ns, self._packet)

    # ---- packets

    def feed(self, packets: Iterable[RocePacket], now_ns: int) -> list[StreamEvent]:
        """Return the events on the links in a batch, in the order of its packets.

        Args:
            packets: RoCE packets of the batch.
            now_ns: time of the latest packet of the capture, of whatever protocol.
        """
        for one in packets:
            self._heed_notes(one.packet)
            self._time_ns, self._packet = one.time_ns, one.packet
            self._outlet.row = one.packet
            way = self._ways.get((one.target, one.header.qpn))
            if way is not None:
                way[0].take(way[1], one)
            elif self._follows_unknown:
                self._hold(one)
        self._heed_notes(None)
        for link in [link for link in self._ending if link.end_if_due(now_ns)]:
            del self._ending[link]
        return self._outlet.drain()

    def finish(self) -> list[StreamEvent]:
        """Return the events left at the end of the capture."""
        self._heed_notes(None)
        while self._unpaired:
            self._follow(next(iter(self._unpaired)))
        for link in dict.fromkeys(link for link, _ in self._ways.values()):
            link.finish(self._time_ns, self._packet)
        return self._outlet.drain()

    # ---- links without an introduction

    def _hold(self, one: RocePacket) -> None:
        key = one.source, one.target, one.header.qpn
        held = self._unpaired.get(key)
        if held is None:
            held = self._unpaired[key] = _Unpaired()
            if len(self._unpaired) > _MOST_UNPAIRED:
                self._follow(next(iter(self._unpaired)))
        one.data = memoryview(bytes(one.data))
        held.packets.append(one)
        (held.answered if one.header.opcode in RESPONSES else held.sent).add(one.header.psn)
        other = self._counterpart(key)
        if other is not None and has_roles(held.packets, self._unpaired[other].packets):
            self._pair(key, other)
        elif len(held.packets) >= MOST_HELD_PACKETS:
            self._follow_alone(key)

    def _counterpart(self, key: _Way) -> _Way | None:
        """Return the direction that answers another one; None if none does, or several."""
        source, target, _ = key
        held = self._unpaired[key]
        found = [
            other
            for other, theirs in self._unpaired.items()
            if other[:2] == (target, source) and other != key and held.answers(theirs)
        ]
        return found[0] if len(found) == 1 else None

    def _follow(self, key: _Way) -> None:
        """Follow a direction, with its counterpart if that is known."""
        other = self._counterpart(key)
        if other is None:
            self._follow_alone(key)
        else:
            self._pair(key, other)

    def _pair(self, one: _Way, other: _Way) -> None:
        """Make a link of two directions."""
        is_first = is_client(self._unpaired[one].packets, self._unpaired[other].packets)
        client, server = (one, other) if is_first else (other, one)
        both = self._unpaired.pop(client), self._unpaired.pop(server)
        link = self._new_link((_endpoint(client[0]), _endpoint(server[0])), (server[2], client[2]), None)
        self._replay(link, [client, server], [held.packets for held in both])

    def _follow_alone(self, key: _Way) -> None:
        """Follow a direction whose answering direction is unknown."""
        held = self._unpaired.pop(key)
        if held.sent:
            link = self._new_link((_endpoint(key[0]), _endpoint(key[1])), (-1, key[2]), None)
            self._replay(link, [key], [held.packets])

    def _replay(
        self,
        link: QueuePairLink,
        keys: list[_Way],
        packets: list[list[RocePacket]],
    ) -> None:
        for side, (key, its) in enumerate(zip(keys, packets, strict=True)):
            self._lead(key[1], key[2], link, side)
            first = _lowest(one.header.psn for one in its if one.header.opcode not in RESPONSES)
            if first is not None:
                link.lanes[side].begin(first)
        waited = [(one, side) for side, its in enumerate(packets) for one in its]
        for one, side in sorted(waited, key=lambda each: each[0].packet):
            link.take(side, one)


def _lowest(psns: Iterator[int]) -> int | None:
    """Return the first of some sequence numbers that are near each other; None if there are none."""
    first = lowest = next(psns, None)
    if first is None or lowest is None:
        return None
    for psn in psns:
        ahead = ((psn - first + _HALF) & PSN_MASK) - _HALF
        if ahead > -FARTHEST_PACKETS and ahead < ((lowest - first + _HALF) & PSN_MASK) - _HALF:
            lowest = psn
    return lowest


def _address_of(gid: bytes) -> Address:
    """Return the address of a global identifier, as in the packets."""
    address = IPv6Address(gid)
    if address.ipv4_mapped is not None:
        return (int(address.ipv4_mapped),)
    number = int(address)
    return number >> 64, number & (1 << 64) - 1


def _endpoint(address: Address) -> str:
    if len(address) == 1:
        return f"{IPv4Address(address[0])}:{ROCE_PORT}"
    return f"[{ip_address(address[0] << 64 | address[1])}]:{ROCE_PORT}"
