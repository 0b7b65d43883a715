"""Faults of the network between namespaces of this machine: of netns hosts or of containers."""

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import Lease
from toolkit.network.bundles import allow_bundles
from toolkit.network.cables import find_cables
from toolkit.network.faults import NetworkFaults
from toolkit.network.forge import Forger, by_loopback, by_port, listener
from toolkit.network.links import Cable, Links, open_links
from toolkit.network.namespaces import inside
from toolkit.network.places import Guest, Place, Places
from toolkit.network.rules import Rule, Rules
from toolkit.network.segments import Segment
from toolkit.network.state import LinkState
from toolkit.network.translation import Translations

_LAST_PORT = 65_535
_LEAST_MTU = 68
"""Least MTU of a link (RFC 791)."""


class NamespaceNetwork(NetworkFaults):
    """Impairs and drops packets between network namespaces.

    Args:
        lease: lease of the cluster.
        hosts: hosts by name; more may be added.
        switch: namespace of the bridges, if the cluster made it (:mod:`toolkit.network.switch`). Without it,
            interfaces are found by the addresses of the hosts.
    """

    def __init__(self, lease: Lease, hosts: Mapping[str, Place], switch: Path | None = None) -> None:
        self._lease = lease
        self._lock = threading.RLock()
        """For the links: a guest may leave at any time."""
        self._places = Places(hosts)
        self._switch = switch
        self._cables: list[Cable] = []
        self._links: Links | None = None
        self._rules = Rules(self._places, switch, self._cables)
        self._translations = Translations(self._places)
        self._forger = Forger(self._places, self._rules, self._arrive, self._listen)
        self._one_by_one: set[str] = set()
        """Hosts with segmentation offload disabled."""

    def plug(self, cables: Sequence[Cable]) -> None:
        """Include hosts that were attached to the switch; impaired links keep their states."""
        with self._lock:
            states = self._impaired()
            self.close()
            self._cables += cables
            if states:
                self._links = self._open(states)
            self._rules.renew()

    def plug_guest(self, guest: Guest, cable: Cable) -> None:
        """Include a virtual machine that was attached to the switch; :meth:`unplug` removes it."""
        self._places.guests[guest.name] = guest
        self.plug([cable])

    def unplug(self, name: str) -> None:
        """Remove all faults of a host or a guest that is about to leave; others stay in force."""
        with self._lock:
            self._rules.change(remove=[rule for rule in self._rules if name in {rule.sender, rule.receiver}])
            self._translations.drop(name)
            states = {pair: state for pair, state in self._impaired().items() if name not in pair}
            self.close()
            self._cables[:] = [cable for cable in self._cables if cable.host != name]
            if states:
                self._links = self._open(states)
            self._rules.renew()
            self._one_by_one.discard(name)
            self._places.guests.pop(name, None)

    def close(self) -> None:
        """Stop impairing packets."""
        with self._lock:
            if self._links is not None:
                self._links.close()
                self._links = None

    @property
    @override
    def guests(self) -> Mapping[str, Guest]:
        return dict(self._places.guests)  # another thread may add or remove one

    # ---- impairments

    @override
    def set_link(self, sender: str, receiver: str, state: LinkState) -> None:
        self._checked(sender, receiver, 0)
        with self._lock:
            if self._links is None:
                self._links = self._open({})
            if self._links.way == "netem" and sender not in self.guests:
                self._send_one_by_one(sender)
            self._links.set({(sender, receiver): state})

    @override
    def link(self, sender: str, receiver: str) -> LinkState:
        self._checked(sender, receiver, 0)
        with self._lock:
            return LinkState() if self._links is None else self._links.get(sender, receiver)

    def _open(self, states: Mapping[tuple[str, str], LinkState]) -> Links:
        if not self._cables:
            self._cables += self._find_cables()
        return open_links(
            self._cables,
            states=states,
            note=self._lease.journal.note,
            environment={PROCESS_VARIABLE: str(self._lease.label)},
            log=self._lease.directory / "wire.log",
            table=self._lease.label.table("wire"),
        )

    def _find_cables(self) -> list[Cable]:
        """Return the cables of all hosts, whose bridges another program made."""
        return find_cables(self._lease.label, self._places)

    def _impaired(self) -> dict[tuple[str, str], LinkState]:
        """Return the states of impaired links."""
        if self._links is None:
            return {}
        pairs = {
            (one.host, other.host)
            for one in self._cables
            for other in self._cables
            if one.host != other.host and one.network == other.network
        }
        states = {pair: self._links.get(*pair) for pair in pairs}
        return {pair: state for pair, state in states.items() if not state.is_clear}

    # ---- packets that are lost

    @contextmanager
    @override
    def at_once(self) -> Iterator[None]:
        """Apply changes together; with a switch they take effect for all hosts at one moment."""
        with self._rules.at_once():
            yield

    @override
    def block(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._rules.change(add=[Rule("block", sender, receiver, self._checked(sender, receiver, port))])

    @override
    def unblock(self, sender: str, receiver: str, *, port: int = 0) -> None:
        self._rules.change(remove=[Rule("block", sender, receiver, self._checked(sender, receiver, port))])

    @override
    def refuse(self, sender: str, receiver: str, *, port: int = 0, refused: bool = True) -> None:
        rule = Rule("refuse", sender, receiver, self._checked(sender, receiver, port))
        self._rules.change(**{"add" if refused else "remove": [rule]})

    @override
    def black_hole(self, sender: str, receiver: str, mtu_bytes: int) -> None:
        self._checked(sender, receiver, 0)
        if mtu_bytes and mtu_bytes < _LEAST_MTU:
            raise LocalError(
                f"black hole {sender} {receiver}: every link carries {_LEAST_MTU} bytes, or 0 ends it"
            )
        known = [
            rule
            for rule in self._rules
            if (rule.what, rule.sender, rule.receiver) == ("black_hole", sender, receiver)
        ]
        if mtu_bytes and sender in self.guests:
            raise Unsupported(
                f"black hole {sender} {receiver}: the kernel of {sender} sends many segments as one packet, whose"
                " lengths are unknown here"
            )
        if mtu_bytes:
            self._send_one_by_one(sender)
        wanted = [Rule("black_hole", sender, receiver, mtu_bytes=mtu_bytes)] if mtu_bytes else []
        self._rules.change(add=wanted, remove=known)

    @override
    def is_blocked(self, sender: str, receiver: str) -> bool:
        """True if the kernel blocks packets between the hosts."""
        rule = Rule("block", sender, receiver)
        # Ask the kernel only about rules that should exist, because a status asks about every pair of hosts.
        return rule in self._rules and rule in self._rules.standing()

    def standing(self) -> list[str]:
        """Return a line for each rule by which the kernel drops or refuses packets now."""
        return [str(rule) for rule in self._rules.standing()]

    def _checked(self, sender: str, receiver: str, port: int) -> int:
        if not self._places.directions(sender, receiver):
            raise LocalError(f"{sender} and {receiver} are on no common network")
        if not 0 <= port <= _LAST_PORT:
            raise LocalError(f"port {port} is invalid")
        return port

    def _send_one_by_one(self, name: str) -> None:
        """Disable a host's segmentation offload, since the length or fate of single packets matters now."""
        if name not in self._one_by_one:
            self._one_by_one.add(name)
            own = frozenset(self._places[name].addresses.values())
            inside(self._places.namespace(name), lambda: allow_bundles(own, allowed=False))

    # ---- other source ports

    @override
    def nat(self, sender: str, receiver: str, *, translated: bool = True) -> None:
        self._checked(sender, receiver, 0)
        if translated:
            self._translations.begin(sender, receiver)
        else:
            self._translations.end(sender, receiver)

    @override
    def nat_flush(self, sender: str, receiver: str, *, silent: bool = False) -> int:
        self._checked(sender, receiver, 0)
        return self._translations.forget(sender, receiver, silent=silent)

    # ---- forged segments

    @override
    def reset(self, a: str, b: str) -> int:
        self._checked(a, b, 0)
        return self._forger.reset(a, b)

    @override
    def finish(self, sender: str, receiver: str) -> int:
        self._checked(sender, receiver, 0)
        return self._forger.finish(sender, receiver)

    def _arrive(self, name: str, packet: bytes) -> None:
        """Deliver a packet to a host; with a switch, through its interface, where captures see it."""
        if self._switch is None:
            by_loopback(self._places.namespace(name), packet)
            return
        segment = Segment.read(packet)
        assert segment is not None
        network = next(
            network
            for network, address in self._places[name].addresses.items()
            if address == str(segment.flow.peer_address)
        )
        cable = next(cable for cable in self._cables if (cable.host, cable.network) == (name, network))
        by_port(self._switch, cable.port, cable.mac, packet)

    def _listen(self, name: str) -> socket.socket:
        """Return a socket that receives what a host sends; that of a guest is at its port of the switch."""
        if self._switch is not None and name in self.guests:
            return inside(self._switch, lambda: listener(name))
        return inside(self._places.namespace(name), listener)

    @override
    def heal(self) -> None:
        self._rules.clear()
        self._translations.clear()
        with self._lock:
            if self._links is None and self.initial:
                self._links = self._open(self.initial)
            elif self._links is not None:
                self._links.initial = dict(self.initial)
                self._links.heal()
        for name in self._one_by_one - {sender for sender, _ in self.initial}:
            own = frozenset(self._places[name].addresses.values())
            inside(self._places.namespace(name), lambda own=own: allow_bundles(own, allowed=True))  # type: ignore[misc]
            self._one_by_one.discard(name)
