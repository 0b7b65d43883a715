"""What a case of the conformance suite is, and the list of all of them."""

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
"""The target has ended the link."""
OPEN = "open"
"""The link works: the target answers a keepalive."""
SILENCE = "silence"
"""Neither an answer nor the end of the link, as long as an answer may take."""
CRASHED = "crashed"
"""The target accepts no connection any more after the case."""

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
    """How binding a case is."""

    STRICT = "strict"
    """The protocol requires it."""
    TOLERANT = "tolerant"
    """The protocol leaves it open; it is what implementations do."""


class Need(StrEnum):
    """What a case needs of the target or of the command line."""

    LOGIN = "login"
    """The target lets this peer in."""
    CEPHX = "cephx"
    """The same, by cephx."""
    SECURE = "secure"
    """The same, in secure mode."""
    SESSION = "session"
    """A session can be opened: the address has the right nonce."""
    LOSSLESS = "lossless"
    """The target's policy for this peer makes sessions that outlive their links."""
    LOSSY = "lossy"
    """The target's policy for this peer makes sessions that end with their links."""
    REPLIES = "replies"
    """The target shows which messages have arrived: by ACK, or because it answers MPing."""
    MONITOR = "monitor"
    """The target is a monitor, and a key of the keyring logs in to it."""
    SERVICE = "service"
    """Authentication to the target takes an authorizer."""
    COMPRESSION = "compression"
    """The banner has COMPRESSION."""
    CRC = "crc"
    """Unencrypted links are allowed."""
    SIGNATURES = "signatures"
    """v1: messages of a session are signed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    id: str
    """``v2/banner/1``: protocol or method, area, number. It never changes."""
    section: str
    """Of docs/protocol.md."""
    title: str
    """What is done and what must happen."""
    run: "Callable[[Attempt], str]"
    """Does it; returns the outcome."""
    expect: tuple[str, ...]
    """Outcomes that the rule allows."""
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other outcomes by the implementation that is known to have them: classic, crimson, kernel."""
    level: Level = Level.STRICT
    needs: frozenset[Need] = frozenset()
    destructive: bool = False
    """It may disturb the target: a session stays behind, or a known implementation has crashed."""

    @property
    def area(self) -> str:
        """The id without the number."""
        return self.id.rpartition("/")[0]

    @property
    def protocol(self) -> Protocol:
        """The protocol that the case speaks; all cases of ``cephx/`` speak v2."""
        return Protocol.V1 if self.id.startswith("v1/") else Protocol.V2

    @property
    def may_crash(self) -> bool:
        """True if an implementation is known to crash; such cases run last."""
        return any(CRASHED in words for words in self.variants.values())

    @property
    def link(self) -> str:
        """The section of the protocol as a link."""
        return f"{PAGE}#{_ANCHORS[self.section]}"


_CASES: dict[str, Case] = {}


def add(case: Case) -> None:
    """Register a case.

    Raises:
        ValueError: there is one of that id, or its section has no link.
    """
    if case.id in _CASES or case.section not in _ANCHORS:
        raise ValueError(f"{case.id}: the id is taken, or §{case.section} is not listed")
    _CASES[case.id] = case


class Area:
    """Registers the cases of one area, numbered in the order of the file.

    Args:
        name: ``v2/banner``.
        section: of docs/protocol.md, unless a case names another.
        needs: of every case.
        destructive: of every case, unless it says otherwise.
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
    """Every case, areas in the order of their files' names, numbers in order."""
    package = import_module("toolkit.conformance.cases")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return sorted(_CASES.values(), key=lambda case: (case.area, int(case.id.rpartition("/")[2])))
