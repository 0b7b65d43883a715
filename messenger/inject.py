"""Faults that a messenger injects into itself, each under Ceph's name for it (docs/protocol.md §7.2).

An injector exists only if one of its options is set. It filters the outputs of a host, and draws a random number
at each read. Random numbers come from the host's generator and delays are timers, so that a seed reproduces a run.
"""

from collections import deque
from typing import TYPE_CHECKING

from messenger.calls import DeliverIo
from messenger.config import Config
from messenger.messages.message import Message
from messenger.outputs import (
    CallHome,
    CloseLink,
    Deliver,
    MoveLink,
    Output,
    SettleDelayed,
    ShutLink,
    TraceRecord,
    WriteLink,
)
from messenger.randomness import RandomSource
from messenger.session.session import Session
from messenger.session.timers import Timer

if TYPE_CHECKING:
    from messenger.host import LinkHost
    from messenger.link import Link

_CONGESTION_RETRY_S = 0.001
"""Seconds until a write that was refused as congested is tried again."""
_CHANCE_BITS = 53

_PIECES = 3
"""Number of reads for a message in Ceph apart from its segments: tag or preamble, header, footer or epilogue."""

_Delayed = tuple[float, Message, int]
"""Earliest time of delivery, the message, and its size in bytes."""


class Injector:
    """Injects faults into the links and deliveries of one host.

    Args:
        host: the host whose outputs are filtered.
        config: options; they may change later, see ``Endpoint.configure``.
        rng: source of random numbers.
    """

    def __init__(self, host: "LinkHost", config: Config, rng: RandomSource) -> None:
        self._host = host
        self._config = config
        self._rng = rng
        self._ready: list[Output] = []
        """Outputs whose delay is over; they leave with the next drain."""
        self._congested: dict[int, list[WriteLink]] = {}
        self._delayed: dict[int, deque[_Delayed]] = {}
        self._timers: dict[int, Timer] = {}
        """Timer of each session's first delayed message."""
        self._blackholes = config.blackholes()

    @staticmethod
    def wanted(config: Config) -> bool:
        """True if an option asks for a fault that the injector makes."""
        return bool(
            config.ms_inject_socket_failures
            or config.ms_inject_internal_delays
            or (config.ms_inject_delay_type and config.ms_inject_delay_probability)
            or config.ms_inject_network_congestion
            or config.blackholes()
        )

    @property
    def held_back(self) -> int:
        """Number of writes and messages that are being delayed."""
        late = len(self._ready) + sum(len(writes) for writes in self._congested.values())
        return late + sum(len(messages) for messages in self._delayed.values())

    def reconfigured(self) -> None:
        """Apply changed options; writes and messages that are already delayed keep their times."""
        self._blackholes = self._config.blackholes()

    # ---- chance

    def _one_in(self, count: int) -> bool:
        return count > 0 and self._rng.getrandbits(32) % count == 0

    def _fraction(self) -> float:
        return self._rng.getrandbits(_CHANCE_BITS) / (1 << _CHANCE_BITS)

    # ---- questions of the host

    def swallows(self, session: Session) -> bool:
        """True if messages to this session's peer are dropped."""
        return session.peer_type in self._blackholes

    def reading(self, link: "Link", now: float) -> None:
        """Shut the socket down before one in so many reads; see also :meth:`_read`."""
        if self._one_in(self._config.ms_inject_socket_failures):
            self._record("ms_inject_socket_failures", "read", now, link=link.id)
            self._host.emit(ShutLink(link.id))

    def internal_delay_s(self, *, learning: bool = False) -> float:
        """Seconds to pause at a decision point; on ``learning`` an address, pause only at random."""
        if learning and not self._one_in(self._config.ms_inject_socket_failures):
            return 0.0
        return self._config.ms_inject_internal_delays

    # ---- outputs

    def pass_on(self, outputs: list[Output], now: float) -> list[Output]:
        """Return those of the outputs that leave now, together with earlier ones whose delay is over."""
        passed, self._ready = self._ready, []
        for output in outputs:
            if isinstance(output, WriteLink):
                self._write(output, passed, now)
            elif isinstance(output, Deliver):
                link = output.session.link
                if link is not None and output.session.stint is None:
                    self._read(link.id, output.messages, passed, now)
                self._deliver(output, passed, now)
            elif isinstance(output, CallHome) and isinstance(output.call, DeliverIo):
                self._read(output.call.link_id, output.call.deliver.messages, passed, now)
                passed.append(output)
            elif isinstance(output, SettleDelayed):
                self._settle(output, passed, now)
            elif isinstance(output, CloseLink):
                self._congested.pop(output.link_id, None)
                passed.append(output)
            elif isinstance(output, MoveLink):
                passed += self._congested.pop(output.link_id, [])
                passed.append(output)
            else:
                passed.append(output)
        return passed

    def _read(self, link_id: int, messages: list[Message], passed: list[Output], now: float) -> None:
        """Shut the socket down if Ceph would have done so in one of its reads for these messages.

        The messages are delivered in any case, as in Ceph, which has read them ahead; the next read fails. The
        random number for the first read of the batch was drawn by :meth:`reading`.
        """
        count = self._config.ms_inject_socket_failures
        pieces = sum(_PIECES + bool(one.front) + bool(one.middle) + bool(one.data) for one in messages) - 1
        if count and any(self._one_in(count) for _ in range(pieces)):
            self._record("ms_inject_socket_failures", "read", now, passed, link=link_id)
            passed.append(ShutLink(link_id))

    def _write(self, output: WriteLink, passed: list[Output], now: float) -> None:
        link_id = output.link_id
        if self._one_in(self._config.ms_inject_socket_failures):
            self._record("ms_inject_socket_failures", "write", now, passed, link=link_id)
            passed.append(ShutLink(link_id))
        if (behind := self._congested.get(link_id)) is not None:
            behind.append(output)
        elif self._is_congested():
            self._record("ms_inject_network_congestion", "", now, passed, link=link_id)
            self._congested[link_id] = [output]
            self._retry(link_id, now)
        else:
            passed.append(output)

    def _is_congested(self) -> bool:
        count = self._config.ms_inject_network_congestion
        return count > 0 and not self._one_in(count)

    def _retry(self, link_id: int, now: float) -> None:
        def again(then: float) -> None:
            if link_id not in self._congested:
                return
            if self._is_congested():
                self._retry(link_id, then)
            else:
                self._ready += self._congested.pop(link_id)

        self._host.timers.at(now + _CONGESTION_RETRY_S, again)

    # ---- deliveries

    def _deliver(self, output: Deliver, passed: list[Output], now: float) -> None:
        session = output.session
        if session.peer_type in self._blackholes:
            option = f"ms_blackhole_{session.peer_type.label}"
            self._record(option, f"{len(output.messages)} received", now, passed, session=session.id)
            self._host.release(output.size_bytes, now, session, len(output.messages))
        elif not session.local and self._config.delays(session.peer_type):
            for message in output.messages:
                self._delay(session, message, passed, now)
        elif session.id in self._delayed:
            self._delayed[session.id] += [(now, message, message.size_bytes) for message in output.messages]
            self._settle(SettleDelayed(session, deliver=True), passed, now)
        else:
            passed.append(output)

    def _delay(self, session: Session, message: Message, passed: list[Output], now: float) -> None:
        """Deliver a message after its random delay, if it has one, and after the messages before it."""
        config = self._config
        delay_s = 0.0
        if self._fraction() < config.ms_inject_delay_probability:
            delay_s = config.ms_inject_delay_max * self._fraction()
            detail = f"seq {message.seq} for {delay_s:.6f} s"
            self._record("ms_inject_delay_probability", detail, now, passed, session=session.id)
        queue = self._delayed.get(session.id)
        if queue is not None:
            queue.append((now + delay_s, message, message.size_bytes))
        elif delay_s:
            self._delayed[session.id] = deque([(now + delay_s, message, message.size_bytes)])
            self._wait_for_first(session)
        else:
            passed.append(Deliver(session, [message], message.size_bytes))

    def _wait_for_first(self, session: Session) -> None:
        """Set the timer for the first delayed message; those behind it that are due by then leave with it."""
        queue = self._delayed[session.id]

        def leave(then: float) -> None:
            messages: list[Message] = []
            size_bytes = 0
            while queue and queue[0][0] <= then:
                _, message, size = queue.popleft()
                messages.append(message)
                size_bytes += size
            self._ready.append(Deliver(session, messages, size_bytes))
            if queue:
                self._wait_for_first(session)
            else:
                del self._delayed[session.id], self._timers[session.id]

        self._timers[session.id] = self._host.timers.at(queue[0][0], leave)

    def _settle(self, output: SettleDelayed, passed: list[Output], now: float) -> None:
        """Deliver or drop all delayed messages of a session at once."""
        session = output.session
        delayed = self._delayed.pop(session.id, None)
        if delayed is None:
            return
        self._timers.pop(session.id).cancel()
        size_bytes = sum(size for _, _, size in delayed)
        messages = [message for _, message, _ in delayed]
        if output.deliver:
            passed.append(Deliver(session, messages, size_bytes))
        else:
            self._host.release(size_bytes, now, session, len(messages))

    # ---- history

    def _record(
        self, option: str, detail: str, now: float, passed: list[Output] | None = None, **where: int
    ) -> None:
        if self._host.tracing:
            record = TraceRecord(now, "inject", {**where, "option": option, "detail": detail})
            if passed is None:
                self._host.emit(record)
            else:
                passed.append(record)
