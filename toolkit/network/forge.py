"""Forge segments in existing TCP connections: RST and FIN with valid sequence numbers.

A receiver accepts an RST only if its sequence number is exactly the next one (RFC 5961 §3), so that number has to
be known. No socket option returns it, but the receiver does: it answers a SYN in an established connection by an
ACK with its next sequence number and the one it expects (RFC 5961 §4), without changing its state. Meanwhile rules
drop everything else between the two hosts, so that the numbers stay valid; TCP retransmits what they drop. The
sockets may belong to other programs, and their processes may be frozen.

The connections of a virtual machine cannot be listed here: they are taken from the list of the other host. The
machine's answers are read at its port of the switch, and a second answer shows whether it has accepted a segment.
"""

import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.network.namespaces import inside
from toolkit.network.places import Places
from toolkit.network.rules import Rule, Rules
from toolkit.network.segments import ACK, FIN, RST, SEQUENCE_NUMBERS, SYN, Flow, Segment
from toolkit.network.sockets import CLOSE_WAIT, ESTABLISHED, FIN_WAIT, connections

_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_SNAP_BYTES = 256
_OLD_ANSWER_S = 0.55
"""The kernel answers such SYNs on a connection at most every half a second (tcp_invalid_ratelimit)."""
_ANSWER_S = 0.1
_TAKES_EFFECT_S = 1.0
_POLL_S = 0.002


class Forger:
    """Forges segments between hosts.

    Args:
        places: the hosts.
        rules: packet rules of the network between them.
        arrive: delivers a packet to a host, as if it came from the network.
        listen: returns a socket that receives what a host sends, and perhaps what it receives.
    """

    def __init__(
        self,
        places: Places,
        rules: Rules,
        arrive: Callable[[str, bytes], None],
        listen: Callable[[str], socket.socket],
    ) -> None:
        self._places = places
        self._rules = rules
        self._arrive = arrive
        self._listen = listen

    def reset(self, a: str, b: str) -> int:
        """Reset the TCP connections between two hosts by an RST forged to both sides; returns their number."""

        def forge(ends: dict[str, set[Flow]]) -> dict[str, set[Flow]]:
            for host, flows in ends.items():
                answers = self._ask(host, flows).values()
                self._forge(host, [Segment(answer.flow.other_end, RST, answer.ack) for answer in answers])
            return ends

        return self._while_still(a, b, {a: _STANDING, b: _STANDING}, forge, _STANDING)

    def finish(self, sender: str, receiver: str) -> int:
        """Forge a FIN from one host to another into every TCP connection; returns their number."""

        def forge(ends: dict[str, set[Flow]]) -> dict[str, set[Flow]]:
            at_sender = self._ask(sender, {flow.other_end for flow in ends[receiver]} & ends[sender])
            is_guest, forged = receiver in self._places.guests, []
            for answer in self._ask(receiver, ends[receiver]).values():
                # Acknowledge what the sender has received; if it has lost the connection, acknowledge everything.
                real = at_sender.get(answer.flow.other_end)
                ack, window = (real.ack, real.window) if real else (answer.seq, answer.window)
                if is_guest and real and answer.ack == (real.seq + 1) % SEQUENCE_NUMBERS:
                    continue  # it has accepted a forged FIN before: it expects the number that follows one
                forged.append(Segment(answer.flow.other_end, FIN | ACK, answer.ack, ack, window))
            self._forge(receiver, forged)
            return {receiver: {one.flow.other_end for one in forged} if is_guest else ends[receiver]}

        return self._while_still(sender, receiver, {sender: _STANDING, receiver: _OPEN}, forge, _OPEN)

    def _while_still(
        self,
        a: str,
        b: str,
        states: dict[str, frozenset[int]],
        forge: Callable[[dict[str, set[Flow]]], dict[str, set[Flow]]],
        left: frozenset[int],
    ) -> int:
        """Forge while no other packets pass between two hosts.

        Args:
            a: one of the hosts.
            b: the other host.
            states: states of the connections to consider, by host.
            forge: takes the ends of connections by host; returns those that it has forged into.
            left: states that these connections leave once the segment has been accepted.

        Returns:
            The number of connections.

        Raises:
            LocalError: some have not accepted the forged segments.
            Unsupported: both are virtual machines.
        """
        if {a, b} <= self._places.guests.keys():
            raise Unsupported(f"{a} and {b} are virtual machines: their connections are unknown here")
        still = Rule("still", a, b)
        self._rules.change(add=[still])
        try:
            ends = {host: self._ends(host, b if host == a else a, known) for host, known in states.items()}
            forged = forge(ends)
            deadline_s = time.monotonic() + _TAKES_EFFECT_S
            while remains := {
                host: flows & self._ends(host, b if host == a else a, left)
                for host, flows in forged.items()
                if host not in self._places.guests
            }:
                if not any(remains.values()):
                    break
                if time.monotonic() > deadline_s:
                    count = sum(map(len, remains.values()))
                    raise LocalError(f"{a} and {b}: {count} ends of connections did not accept the forged segment")
                time.sleep(_POLL_S)
        finally:
            self._rules.change(remove=[still])
        return len({frozenset((flow, flow.other_end)) for flows in forged.values() for flow in flows})

    def _ends(self, host: str, peer: str, states: frozenset[int]) -> set[Flow]:
        """Return a host's connections with another host; those of a guest by the states of the other end."""
        if host in self._places.guests:
            other = _NOT_CLOSED if states == _OPEN else _STANDING
            return {flow.other_end for flow in self._ends(peer, host, other)}
        own = {direction.sender for direction in self._places.directions(host, peer)}
        others = {direction.receiver for direction in self._places.directions(host, peer)}
        found = inside(self._places.namespace(host), lambda: connections(states))
        return {flow for flow in found if flow.address in own and flow.peer_address in others}

    def _forge(self, host: str, segments: Iterable[Segment]) -> None:
        """Forge segments into connections of a host; raises LocalError if a guest has not accepted all of them."""
        forged = {segment.flow.other_end: segment for segment in segments}
        for segment in forged.values():
            self._send(host, segment)
        if host in self._places.guests:
            again = self._ask(host, forged)
            refused = [flow for flow, answer in again.items() if answer.ack == forged[flow].seq]
            if refused:
                raise LocalError(f"{host}: {len(refused)} ends of connections did not accept the forged segment")

    def _send(self, host: str, segment: Segment) -> None:
        self._arrive(host, segment.packet())

    def _ask(self, host: str, flows: Iterable[Flow]) -> dict[Flow, Segment]:
        """Return the sequence numbers of a host's connections, from its answers to SYNs.

        Raises:
            LocalError: a guest does not answer; other hosts are judged by their connections.
        """
        waiting, answers = set(flows), dict[Flow, Segment]()
        with closing(self._listen(host)) as listener:
            deadline_s = time.monotonic() + _OLD_ANSWER_S + _ANSWER_S
            while waiting and time.monotonic() < deadline_s:
                for flow in waiting:
                    self._send(host, Segment(flow.other_end, SYN, 0))
                asked_s = time.monotonic()
                while waiting and (left_s := asked_s + _ANSWER_S - time.monotonic()) > 0:
                    if select.select([listener], [], [], left_s)[0]:
                        segment = Segment.read(listener.recv(_SNAP_BYTES))
                        if not segment or segment.flow not in waiting:
                            continue
                        if segment.flags & (ACK | SYN | RST | FIN) == ACK:
                            answers[segment.flow] = segment
                            waiting.discard(segment.flow)
                        elif segment.flags & (SYN | RST):
                            waiting.discard(segment.flow)  # there is no such connection
        if waiting and host in self._places.guests:
            raise LocalError(f"{host}: it does not answer on {len(waiting)} connections")
        return answers


_OPEN = frozenset((ESTABLISHED, *FIN_WAIT))
"""States before a FIN of the peer."""
_STANDING = _OPEN | {CLOSE_WAIT}
_NOT_CLOSED = frozenset((ESTABLISHED, CLOSE_WAIT))
"""States of the end of a peer that has sent no FIN."""


def listener(interface: str = "") -> socket.socket:
    """Return a socket that receives all packets that leave and reach this thread's namespace, or an interface."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0 if interface else socket.htons(_ETH_P_ALL))
    if interface:
        made.bind((interface, _ETH_P_ALL))
    return made


def by_port(switch: Path, port: str, mac: str, packet: bytes) -> None:
    """Send a packet from a port of a switch, to the host there."""
    protocol = _ETH_P_IPV6 if packet[0] >> 4 == 6 else _ETH_P_IP

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as out:
            out.sendto(packet, (port, protocol, 0, 0, bytes.fromhex(mac.replace(":", ""))))

    inside(switch, send)


def by_loopback(namespace: Path, packet: bytes) -> None:
    """Deliver a packet to a host over its own ``lo``: TCP does not check the interface of a segment."""
    is_v6 = packet[0] >> 4 == 6
    destination = (
        socket.inet_ntop(socket.AF_INET6, packet[24:40])
        if is_v6
        else socket.inet_ntop(socket.AF_INET, packet[16:20])
    )

    def send() -> None:
        family = socket.AF_INET6 if is_v6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
            out.sendto(packet, (destination, 0))

    inside(namespace, send)
