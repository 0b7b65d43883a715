"""Drop or refuse packets by rules of nftables.

With a switch namespace the rules see packets as they come in from the hosts: a capture at the sender's interface
shows the dropped packets, one at the receiver's does not. Without it, each receiver's namespace has the rules for
the packets that it receives. All rules are in their own table, which is replaced as a whole in one
transaction; comments in the table record the faults.
"""

import json
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from toolkit.machine.nft import nft
from toolkit.network.links import Cable
from toolkit.network.namespaces import inside
from toolkit.network.places import Direction, Places

_TABLE = "msgrlab"


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Drops or refuses packets from one host to another."""

    what: Literal["still", "block", "black_hole", "refuse"]
    """``still`` drops all TCP in both directions, while segments are forged."""
    sender: str
    receiver: str
    port: int = 0
    """TCP port of the receiver; 0 for all."""
    mtu_bytes: int = 0
    """Longest packet that passes a black hole."""

    def __str__(self) -> str:
        """Return the text that the kernel stores as the comment of its rule."""
        words = [self.what, self.sender, self.receiver]
        return " ".join(words + [f"{name}={value}" for name in _NUMBERS if (value := getattr(self, name))])

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Parse the comment of a rule."""
        what, sender, receiver, *named = text.split()
        numbers = {name: int(value) for name, _, value in (word.partition("=") for word in named)}
        return cls(what, sender, receiver, **numbers)  # type: ignore[arg-type]


_NUMBERS = [field.name for field in fields(Rule) if field.default == 0]
_ORDER = ("still", "block", "black_hole", "refuse")
"""Dropping comes first, so that dropped packets are not answered."""


class Rules:
    """The rules of a network.

    Args:
        places: its hosts.
        switch: namespace that all packets pass through, if there is one.
        cables: cables of the hosts, at whose ports packets come in; more may be added, see :meth:`renew`.
    """

    def __init__(self, places: Places, switch: Path | None = None, cables: Sequence[Cable] = ()) -> None:
        self._places = places
        self._switch = switch
        self._cables = cables
        self._lock = threading.RLock()
        self._rules: frozenset[Rule] = frozenset()
        self._waiting: frozenset[Rule] | None = None
        """Rules to apply at the end of :meth:`at_once`; None outside of it."""

    def change(self, add: Iterable[Rule] = (), remove: Iterable[Rule] = ()) -> None:
        """Add and remove rules in one transaction; from any thread.

        Raises:
            LocalError: there is no such host, or the kernel rejects the rules.
            Unsupported: nft is not installed.
        """
        with self._lock:
            known = self._rules if self._waiting is None else self._waiting
            wanted = (known - frozenset(remove)) | frozenset(add)
            if self._waiting is None:
                self._become(wanted)
            else:
                self._waiting = wanted

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Apply all changes in a ``with`` block together at its end; after an error none of them."""
        with self._lock:
            if self._waiting is not None:
                yield
                return
            self._waiting = self._rules
            try:
                yield
                wanted = self._waiting
            finally:
                self._waiting = None
            self._become(wanted)

    def _become(self, wanted: frozenset[Rule]) -> None:
        if wanted != self._rules:
            self._put(wanted, self._namespaces(wanted ^ self._rules))
            self._rules = wanted

    def renew(self) -> None:
        """Apply the rules to the ports of added cables as well."""
        with self._lock:
            if self._rules:
                self._put(self._rules, self._namespaces(self._rules))

    def clear(self) -> None:
        """Remove all rules."""
        self.change(remove=self._rules)

    def __iter__(self) -> Iterator[Rule]:
        """Return the rules, without asking the kernel."""
        return iter(self._rules)

    def standing(self) -> list[Rule]:
        """Return the rules in the kernel.

        Raises:
            Unsupported: nft is not installed.
        """
        found: set[Rule] = set()
        for namespace in [self._switch] if self._switch else map(self._places.namespace, self._places.hosts):
            family = self._family
            answer = inside(namespace, lambda family=family: nft("-j", "list", "ruleset", family))  # type: ignore[misc]
            found |= {Rule.parse(comment) for comment in _comments(json.loads(answer))}
        return sorted(found)

    # ---- where they are, and what they look like

    def _put(self, rules: Iterable[Rule], namespaces: Iterable[Path]) -> None:
        """Replace the tables in some namespaces."""
        for namespace in namespaces:
            lines = [line for rule in sorted(rules, key=_order) for line in self._lines(rule, namespace)]
            inside(namespace, lambda lines=lines: self._replace(lines))  # type: ignore[misc]

    def _replace(self, lines: list[str]) -> None:
        """Replace the table in the namespace of this thread."""
        there = {name for _, name in socket.if_nameindex()}
        # The port of a virtual machine vanishes with it, perhaps before its cable is removed from the list.
        nft("-f", "-", text=self._table(lines, [cable.port for cable in self._cables if cable.port in there]))

    @property
    def _family(self) -> str:
        return "netdev" if self._switch else "inet"

    def _namespaces(self, changed: Iterable[Rule]) -> list[Path]:
        """Return the namespaces whose tables have these rules."""
        if self._switch is not None:
            return [self._switch]
        return [
            self._places.namespace(name) for name in sorted({n for r in changed for n in (r.sender, r.receiver)})
        ]

    def _table(self, lines: list[str], ports: Sequence[str]) -> str:
        """Return the text that replaces a table, or removes it if there are no lines."""
        table = f"table {self._family} {_TABLE}"
        text = f"{table}\ndelete {table}\n"
        if lines:
            devices = ", ".join(f'"{port}"' for port in ports)
            hook = f"ingress devices = {{ {devices} }} priority 0" if self._switch else "input priority raw"
            chain = "\n".join((f"type filter hook {hook};", *lines))
            text += f"{table} {{\nchain arriving {{\n{chain}\n}}\n}}\n"
        return text

    def _lines(self, rule: Rule, namespace: Path) -> Iterator[str]:
        """Yield the lines of a rule for the table in a namespace."""
        for direction in self._places.directions(rule.sender, rule.receiver):
            back = Direction(direction.receiver, direction.sender)
            if self._belongs(rule.receiver, namespace):
                yield _line(rule, direction, "dport")
            if (rule.what == "still" or (rule.what == "block" and rule.port)) and self._belongs(
                rule.sender, namespace
            ):
                yield _line(rule, back, "sport")

    def _belongs(self, receiver: str, namespace: Path) -> bool:
        return namespace == self._switch or self._places.namespace(receiver) == namespace


def _order(rule: Rule) -> tuple[int, Rule]:
    return _ORDER.index(rule.what), rule


def _line(rule: Rule, direction: Direction, port: str) -> str:
    family = "ip" if direction.sender.version == 4 else "ip6"
    # Forged segments may arrive on lo, and must pass; other packets between hosts never do.
    way = f'{family} saddr {direction.sender} {family} daddr {direction.receiver} iifname != "lo"'
    at_port = f" tcp {port} {rule.port}" if rule.port else ""
    if rule.what == "refuse":
        # Only SYNs, so that established connections stay.
        what = f"{at_port} tcp flags & (syn|ack) == syn reject with tcp reset"
    elif rule.what == "black_hole":
        what = f" meta length > {rule.mtu_bytes} drop"
    elif rule.what == "still":
        what = " meta l4proto tcp drop"
    else:
        what = f"{at_port} drop"
    return f'{way}{what} comment "{rule}"'


def _comments(ruleset: dict[str, Any]) -> Iterator[str]:
    for entry in ruleset["nftables"]:
        rule = entry.get("rule", {})
        if rule.get("table") == _TABLE:
            yield rule["comment"]
