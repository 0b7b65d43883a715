"""Cases of the conformance suite: their data, outcomes and registry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from messenger.protocols import Protocol

if TYPE_CHECKING:
    from toolkit.conformance.attempt import Attempt

CLOSED = "closed"
"""Outcome: the target closed the link."""
OPEN = "open"
"""Outcome: the link works, since the target answers a keepalive."""
SILENCE = "silence"
"""Outcome: neither an answer nor the end of the link within the time limit."""
CRASHED = "crashed"
"""Outcome: the target accepts no connections after the case."""

PAGE = "docs/protocol.md"

_ANCHORS = {
    "1.3": "13-addresses",
    "2.3": "23-features-that-change-the-messenger",
    "2.4": "24-features-that-peers-require",
    "2.5": "25-banner-features-of-msgr-v2",
    "3.1": "31-constants",
    "3.2": "32-opening-byte-sequence",
    "3.3": "33-authorizers-in-v1",
    "3.4": "34-server-processing-one-connect",
    "3.6": "36-sequence-numbers",
    "3.7": "37-message-stream",
    "4.1": "41-overview-of-a-connection",
    "4.2": "42-banner",
    "4.3": "43-tags",
    "4.4": "44-preamble",
    "4.5": "45-frame-layouts",
    "4.6": "46-keys-and-nonces-of-secure-mode",
    "4.7": "47-the-authentication-phase",
    "4.8": "48-message",
    "4.9": "49-session-state",
    "4.10": "410-compression",
    "5.5": "55-login-to-a-monitor-over-v2",
    "5.7": "57-authorizers",
}


class Level(StrEnum):
    """Whether the protocol requires the outcome of a case."""

    STRICT = "strict"
    """The protocol requires the outcome."""
    TOLERANT = "tolerant"
    """The protocol leaves the outcome open; the expected one is that of existing implementations."""


class Need(StrEnum):
    """A requirement of a case on the target or on the credentials."""

    LOGIN = "login"
    """This peer can authenticate to the target."""
    CEPHX = "cephx"
    """This peer can authenticate to the target by cephx."""
    SECURE = "secure"
    """This peer can authenticate to the target in secure mode."""
    SESSION = "session"
    """A session can be opened: the nonce of the address is correct."""
    LOSSLESS = "lossless"
    """The target's policy for this peer is lossless: sessions outlive their links."""
    LOSSY = "lossy"
    """The target's policy for this peer is lossy: sessions end with their links."""
    REPLIES = "replies"
    """The target shows which messages it has received, by ACK or by answers to MPing."""
    MONITOR = "monitor"
    """The target is a monitor, and the keyring has a key to log in to it."""
    SERVICE = "service"
    """Authentication to the target requires an authorizer."""
    COMPRESSION = "compression"
    """The target's banner has the feature COMPRESSION."""
    CRC = "crc"
    """Unencrypted links are allowed."""
    SIGNATURES = "signatures"
    """v1: messages of a session are signed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case: its title, the function that runs it, and the outcomes that it may have."""

    id: str
    """``v2/banner/1``: protocol or method, area, number. It never changes."""
    section: str
    """Section of docs/protocol.md that has the rule, such as ``4.2``."""
    title: str
    """The peer's action and the required reaction."""
    run: "Callable[[Attempt], str]"
    """Runs the case and returns the outcome."""
    expect: tuple[str, ...]
    """Outcomes that the rule allows."""
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Known deviating outcomes, by implementation: classic, crimson, kernel."""
    level: Level = Level.STRICT
    needs: frozenset[Need] = frozenset()
    destructive: bool = False
    """True if the case may disturb the target: it leaves a session behind, or has crashed an implementation."""

    @property
    def area(self) -> str:
        """The id without the number."""
        return self.id.rpartition("/")[0]

    @property
    def protocol(self) -> Protocol:
        """The protocol of the case; all cases of ``cephx/`` use v2."""
        return Protocol.V1 if self.id.startswith("v1/") else Protocol.V2

    @property
    def may_crash(self) -> bool:
        """True if the case is known to crash an implementation; such cases run last."""
        return any(CRASHED in words for words in self.variants.values())

    @property
    def link(self) -> str:
        """Link to the section of the protocol."""
        return f"{PAGE}#{_ANCHORS[self.section]}"


_CASES: dict[str, Case] = {}


def add(case: Case) -> None:
    """Register a case.

    Raises:
        ValueError: the id is taken, or the section has no anchor in ``_ANCHORS``.
    """
    if case.id in _CASES or case.section not in _ANCHORS:
        raise ValueError(f"{case.id}: the id is taken, or §{case.section} is not listed")
    _CASES[case.id] = case


class Area:
    """Registers the cases of one area, numbered in the order of the file.

    Args:
        name: name of the area, such as ``v2/banner``.
        section: section of docs/protocol.md; a case may name another.
        needs: requirements of every case in the area.
        destructive: True if the cases of the area are destructive; a case may override it.
    """

    def __init__(self, name: str, section: str, *needs: Need, destructive: bool = False) -> None:
        self._name = name
        self._section = section
        self._needs = frozenset(needs)
        self._destructive = destructive
        self._count = 0

    def case(
        self,
        title: str,
        *expect: str,
        section: str = "",
        level: Level = Level.STRICT,
        needs: tuple[Need, ...] = (),
        destructive: bool | None = None,
        classic: tuple[str, ...] = (),
        crimson: tuple[str, ...] = (),
        kernel: tuple[str, ...] = (),
    ) -> "Callable[[Callable[[Attempt], str]], Callable[[Attempt], str]]":
        """Decorate the function that runs a case; see :class:`Case`."""
        self._count += 1
        number = self._count
        variants = {"classic": classic, "crimson": crimson, "kernel": kernel}

        def register(run: "Callable[[Attempt], str]") -> "Callable[[Attempt], str]":
            add(
                Case(
                    f"{self._name}/{number}",
                    section or self._section,
                    title,
                    run,
                    expect,
                    {name: words for name, words in variants.items() if words},
                    level,
                    self._needs | frozenset(needs),
                    self._destructive if destructive is None else destructive,
                )
            )
            return run

        return register


def all_cases() -> list[Case]:
    """Import and return all cases, sorted by area and number."""
    package = import_module("toolkit.conformance.cases")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return sorted(_CASES.values(), key=lambda case: (case.area, int(case.id.rpartition("/")[2])))
