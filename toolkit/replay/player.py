"""Plays our messenger in the place of one side of a recorded session."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.features import MSGR2_SUPPORTED
from messenger.endpoint import Endpoint
from messenger.errors import FaultReason, LocalError
from messenger.outputs import CloseLink, Deliver, OpenLink, Output, TraceRecord, WriteLink
from messenger.protocols import Protocol
from messenger.session.policy import Policy, PolicySet
from messenger.session.session import Session
from messenger.session.states import SessionState
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import NO_FRAMES, DecodedFrame
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.links import LinkDecoder
from toolkit.dissect.stream import Ending, Run, Stream
from toolkit.replay.exchanges import RecordedAuth
from toolkit.replay.handshake import Side
from toolkit.replay.record import RecordedLink, RecordedSession
from toolkit.replay.sends import ORIGINATES, message_of, sender_of

_PEERS = frozenset({EntityType.OSD, EntityType.MDS, EntityType.MON})
"""Daemons of one of these types dial each other, and neither is the server."""
_MODES = {1: "crc", 2: "secure"}
_ALGORITHMS = {1: "snappy", 2: "zlib", 3: "zstd", 4: "lz4", 5: "brotli"}
_NANO = 1e9


class _RecordedCookies:
    """A random source that returns the recorded cookies; other values are random."""

    def __init__(self) -> None:
        self._random = Random(0)
        self.next_cookie = 0

    def getrandbits(self, bits: int, /) -> int:
        """Return the next cookie if one is due, else a random number."""
        if bits == 64 and self.next_cookie:
            return self.next_cookie
        return self._random.getrandbits(bits)

    def randbytes(self, size: int, /) -> bytes:
        """Return random bytes."""
        return self._random.randbytes(size)


@dataclass(slots=True, eq=False)
class Played:
    """A recorded link, and what our side sent on it."""

    link: RecordedLink
    sends: Direction
    """The direction of our frames."""
    frames: list[DecodedFrame] = field(default_factory=list)
    """Our frames, decoded like those of the record."""
    produced: dict[str, int] = field(default_factory=dict)
    """Number of our frames so far, by tag."""
    seen: dict[str, int] = field(default_factory=dict)
    """Number of the real side's frames so far, by tag."""
    link_id: int | None = None
    closed: str = ""
    """Reason why our side closed it before the end of the record; empty if it did not."""
    problem: str = ""
    """Reason why our side did not open it; empty if it did."""


class _Wire:
    """Decodes the bytes of one link of the replay: those of the record one way, ours the other."""

    def __init__(self, played: Played, book: KeyBook) -> None:
        self._played = played
        recorded = played.link.stream
        self._stream = Stream(recorded.index, recorded.client, recorded.server, opening_seen=True)
        self._decoder = LinkDecoder(self._stream, book, self._emit)

    def _emit(self, frame: DecodedFrame) -> None:
        played = self._played
        if frame.direction is played.sends:
            frame.frame = len(played.frames)
            played.frames.append(frame)
            played.produced[frame.tag] = played.produced.get(frame.tag, 0) + 1

    def pass_on(self, direction: Direction, data: bytes, time_ns: int) -> None:
        """Decode bytes of one direction."""
        if data:
            self._decoder.take(Run(self._stream, direction, memoryview(data), [len(data)], [time_ns], [0]))

    def finish(self) -> None:
        """Process the end of the bytes."""
        self._decoder.finish()


@dataclass(slots=True)
class _Event:
    time_ns: int
    link: Played
    frame: DecodedFrame | None
    """None: the link opens or ends."""
    opens: bool = False


class Player:
    """Plays one party of a session.

    Args:
        session: the record.
        party: index of the party that our messenger plays: 0, which dialled first, or 1.
        book: known keys.
        rules: disputed rules with a setting other than the default (docs/disputes.md).
    """

    def __init__(
        self, session: RecordedSession, party: int, book: KeyBook, rules: Mapping[str, str] | None = None
    ) -> None:
        self._session = session
        self._rules = rules or {}
        self._party = party
        self._book = book
        self.links = [Played(link, link.sent_by(party)) for link in session.links]
        """The links, in the order in which they were opened."""
        self.faults: list[str] = []
        """Faults that broke our links, as texts."""
        first = self.links[0]
        self._begin_ns = first.link.frames[0].time_ns
        self._auth = RecordedAuth(first.link.handshake)
        self._cookies = _RecordedCookies()
        self._wires = {played: _Wire(played, book) for played in self.links}
        self._by_id: dict[int, Played] = {}
        self._dials: list[int] = []
        """Ids of the links that our side is to open."""
        self._conn: Session | None = None
        self._sent: dict[object, Played] = {}
        """The links on which the real side sent each message first, by seq and content."""
        self._time_ns = self._begin_ns
        self.endpoint = self._new_endpoint()

    # ---- configuration of our side

    def _facts(self, played: Played) -> tuple[Side, Side]:
        """Return our side of a link, and the peer's."""
        handshake = played.link.handshake
        return handshake.side(played.sends), handshake.side(played.sends.other)

    def _new_endpoint(self) -> Endpoint:
        kinds = [self._facts(played)[0].kind for played in self.links]
        kind = next((kind for kind in kinds if kind is not None), EntityType.CLIENT)
        return Endpoint(
            EntityName(kind),
            self._addrs(),
            rng=self._cookies,
            auth_client=self._auth.client(),
            auth_server=self._auth.server(),
            policies=PolicySet(self._policy()),
            config=self._config(self.links[0]),
            wall_offset_s=self._begin_ns / _NANO,
            tracing=True,
        )

    def _addrs(self) -> AddrVec:
        for played in self.links:
            mine = self._facts(played)[0].addrs
            if mine:
                return mine
        handshake = self.links[0].link.handshake
        target = handshake.target if self.links[0].sends is Direction.TO_CLIENT else handshake.seen_client
        return AddrVec((target or EntityAddr(),))

    def _policy(self) -> Policy:
        """Return the policy towards the peer, from the flags and types in the record."""
        mine = [self._facts(played)[0] for played in self.links]
        theirs = [self._facts(played)[1] for played in self.links]
        lossy = next((side.lossy for side in mine if side.lossy is not None), False)
        kinds = {side.kind for side in (*mine, *theirs) if side.kind is not None}
        required = next((side.required for side in mine if side.required is not None), 0)
        if len(kinds) == 1 and kinds <= _PEERS and not lossy:
            reuse = EntityType.MON in kinds
            return Policy("recorded", standby=True, resetcheck=reuse, features_required=required)
        if self.links[0].sends is Direction.TO_SERVER:
            return Policy("recorded", lossy=lossy, resetcheck=not lossy, features_required=required)
        return Policy(
            "recorded",
            lossy=lossy,
            server=True,
            standby=not lossy,
            resetcheck=not lossy,
            register_lossy_clients=False,
            features_required=required,
        )

    def _config(self, played: Played) -> Config:
        handshake, mine = played.link.handshake, self._facts(played)[0]
        modes = handshake.offered_modes if played.sends is Direction.TO_SERVER else [handshake.con_mode or 1]
        text = " ".join(_MODES[mode] for mode in modes if mode in _MODES) or "crc secure"
        options: dict[str, object] = {**self._rules, "msgr2_features": mine.msgr2_features & MSGR2_SUPPORTED}
        names = ("mon_cluster", "mon_service", "mon_client", "cluster", "service", "client")
        options |= {f"ms_{name}_mode": text for name in names}
        if mine.features is not None:
            options["features_supported"] = mine.features
        if handshake.request is not None and handshake.request.is_compress:
            methods = [_ALGORITHMS[each] for each in handshake.request.methods if each in _ALGORITHMS]
            if methods and (
                played.sends is Direction.TO_SERVER or (handshake.done and handshake.done.is_compress)
            ):
                options["ms_osd_compression_algorithm"] = " ".join(methods)
                options["ms_osd_compress_mode"] = "force"
                options["ms_compress_secure"] = True
        return Config(**options)  # type: ignore[arg-type]

    @property
    def authenticated(self) -> list[int]:
        """Streams of the links for which our own cephx computed the authentication."""
        computed = self._auth.computed
        return [each.link.stream.index for each in self.links if id(each.link.handshake) in computed]

    # ---- replay

    def play(self) -> None:
        """Feed the peer's frames, let the application send, and collect our frames."""
        for event in self._events():
            self._advance(event.time_ns)
            self._prepare(event.link)
            if event.frame is not None:
                self._frame(event.link, event.frame)
            elif event.opens:
                self._open(event.link)
            else:
                self._end(event.link)
            self._drain()
        for wire in self._wires.values():
            wire.finish()

    def _prepare(self, played: Played) -> None:
        """Configure our side and its random values for this link."""
        mine = self._facts(played)[0]
        self._auth.current = played.link.handshake
        self._cookies.next_cookie = mine.cookie
        if mine.features is not None and mine.features != self.endpoint.config.features_supported:
            self.endpoint.configure(features_supported=mine.features)

    def _events(self) -> Iterator[_Event]:
        keyed: list[tuple[tuple[int, int, int], _Event]] = []
        for number, played in enumerate(self.links):
            frames = [frame for frame in played.link.frames if frame.tag not in NO_FRAMES]
            if not frames:
                continue
            first = frames[0]
            keyed.append(((first.packet, 0, number), _Event(first.time_ns, played, None, opens=True)))
            keyed += [((each.packet, 1, each.frame), _Event(each.time_ns, played, each)) for each in frames]
            end = played.link.end
            if end is not None:
                # As long as the replaced side still sends, it has not noticed the end.
                last = next((each for each in reversed(frames) if each.direction is played.sends), first)
                when = (max(end.packet, last.packet), 2, number)
                keyed.append((when, _Event(max(end.time_ns, last.time_ns), played, None)))
        keyed.sort(key=lambda pair: pair[0])
        return iter([event for _, event in keyed])

    @property
    def _now(self) -> float:
        return (self._time_ns - self._begin_ns) / _NANO

    def _advance(self, time_ns: int) -> None:
        """Run the timers that are due before ``time_ns``."""
        while (deadline_s := self.endpoint.next_deadline()) is not None:
            due_ns = self._begin_ns + int(deadline_s * _NANO) + 1
            if due_ns > time_ns:
                break
            self._time_ns = max(self._time_ns, due_ns)
            self.endpoint.timer(self._now)
            self._drain()
        self._time_ns = max(self._time_ns, time_ns)

    # ---- links

    def _open(self, played: Played) -> None:
        handshake, (mine, theirs) = played.link.handshake, self._facts(played)
        endpoint = self.endpoint
        if mine.number is not None:
            endpoint.name = EntityName(endpoint.name.type, mine.number)
        if mine.addrs:
            endpoint.addrs = mine.addrs
        dials = played.sends is Direction.TO_SERVER
        protocol = Protocol.V1 if self._session.protocol == "v1" else Protocol.V2
        local = _socket_addr(played.link.stream.client if dials else played.link.stream.server, protocol)
        if dials:
            self._dial(played, theirs, protocol, local)
            return
        if mine.global_seqs:
            endpoint.numbers.global_seq = mine.global_seqs[0] - 1
        remote = handshake.seen_client or _socket_addr(played.link.stream.client, protocol)
        self._join(played, endpoint.link_accepted(remote, self._now, protocol, local))

    def _join(self, played: Played, link_id: int) -> None:
        played.link_id = link_id
        self._by_id[link_id] = played

    def _dial(self, played: Played, theirs: Side, protocol: Protocol, local: EntityAddr) -> None:
        mine = self._facts(played)[0]
        if not self._dials:
            self._dial_now(played, theirs, protocol)
            self._drain()
        if not self._dials:
            state = self._conn.state.value if self._conn is not None else "no session"
            played.problem = f"our side does not dial: {state}"
            return
        link_id = self._dials.pop(0)
        self._join(played, link_id)
        if self._conn is not None and mine.global_seqs:
            self._conn.global_seq = mine.global_seqs[0]
            self.endpoint.numbers.global_seq = mine.global_seqs[0]
        self.endpoint.link_opened(link_id, local, self._now)

    def _dial_now(self, played: Played, theirs: Side, protocol: Protocol) -> None:
        """Make our side dial now, when the real side does, without its own pause."""
        conn, endpoint = self._conn, self.endpoint
        if conn is None or conn.state is SessionState.CLOSED:
            target = played.link.handshake.target
            if target is None:
                target = _socket_addr(played.link.stream.server, protocol)
            kind = theirs.kind or EntityType.OSD
            try:
                self._conn = endpoint.connect(AddrVec((target,)), kind, self._now, self._policy())
            except LocalError as error:
                played.problem = str(error)
        elif conn.state is SessionState.STANDBY:
            endpoint.wake_session(conn, self._now)
        elif conn.backoff_timer is not None:
            conn.cancel_backoff()
            endpoint.redial(conn, self._now)

    def _end(self, played: Played) -> None:
        end, link_id = played.link.end, played.link_id
        if end is None or link_id is None or played.closed:
            return
        reason = FaultReason.SOCKET if end.how is Ending.RESET else FaultReason.EOF
        played.closed = "as in the record"
        self.endpoint.link_failed(link_id, reason, "", self._now)

    # ---- frames

    def _frame(self, played: Played, frame: DecodedFrame) -> None:
        if frame.direction is not played.sends:
            data = bytes(frame.wire)
            self._wires[played].pass_on(frame.direction, data, frame.time_ns)
            if played.link_id is not None and not played.closed and played.link.arrived(frame):
                self.endpoint.link_data(played.link_id, data, self._now)
            return
        conn = self._conn
        played.seen[frame.tag] = played.seen.get(frame.tag, 0) + 1
        if frame.tag not in ORIGINATES or played.link_id is None or conn is None:
            return
        known = self._is_known(played, frame)
        if known or played.produced.get(frame.tag, 0) >= played.seen[frame.tag]:
            return  # our side has sent it already, or must replay it by itself
        sender = sender_of(frame)
        if sender is not None:
            self.endpoint.name = sender
        if frame.message is None:
            self.endpoint.send_keepalive(conn, self._now)
        else:
            self.endpoint.send(conn, message_of(frame), self._now)

    def _is_known(self, played: Played, frame: DecodedFrame) -> bool:
        """True if a resumed session sends a message again."""
        if frame.message is None:
            return False
        key = frame.message.seq, frame.message.type, tuple(map(bytes, frame.segments[1:]))
        first = self._sent.setdefault(key, played)
        return first is not played and played.link.handshake.resumed

    def _drain(self) -> None:
        while outputs := self.endpoint.drain(self._now):
            for output in outputs:
                self._carry_out(output)

    def _carry_out(self, output: Output) -> None:
        match output:
            case OpenLink():
                self._dials.append(output.link_id)
            case WriteLink():
                played = self._by_id.get(output.link_id)
                if played is not None:
                    data = b"".join(output.buffers)
                    self._wires[played].pass_on(played.sends, data, self._time_ns)
                    self.endpoint.link_written(output.link_id, output.size_bytes, self._now)
            case CloseLink():
                self._closed(output.link_id)
            case Deliver():
                self._conn = output.session
                self.endpoint.release(output.size_bytes, self._now, output.session, len(output.messages))
            case TraceRecord():
                if output.kind == "fault":
                    self.faults.append(f"{output.fields['reason']} {output.fields['detail']}".strip())
            case _:
                session = getattr(output, "session", None)
                if isinstance(session, Session) and session.state is not SessionState.CLOSED:
                    self._conn = session

    def _closed(self, link_id: int) -> None:
        if link_id in self._dials:
            self._dials.remove(link_id)
        played = self._by_id.get(link_id)
        if played is not None and not played.closed:
            played.closed = self.faults[-1] if self.faults else "closed"


def _socket_addr(text: str, protocol: Protocol) -> EntityAddr:
    host, _, port = text.rpartition(":")
    kind = AddressType.LEGACY if protocol is Protocol.V1 else AddressType.MSGR2
    return EntityAddr.from_host(host.strip("[]"), int(port), kind)
