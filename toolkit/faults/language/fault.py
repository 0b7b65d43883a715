"""The base class of faults, and their parser."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.faults.language import grammar
from toolkit.scanner import Scanner, TextError

if TYPE_CHECKING:
    from toolkit.faults.language.scene import Scene


class Area(StrEnum):
    """Subject of a fault."""

    PROCESSES = "processes"
    NETWORK = "network"
    MESSENGER = "messenger"


@dataclass(frozen=True, slots=True)
class Fault(ABC):
    """One fault, as a plain value. Subclasses are frozen dataclasses whose fields define the syntax."""

    WORD: ClassVar[str] = ""
    AREA: ClassVar[Area]
    LASTS: ClassVar[bool] = False
    """True if it remains in force until it is reverted."""
    EXAMPLE: ClassVar[str]
    KINDS: ClassVar[dict[str, type["Fault"]]] = {}
    """All classes of faults by their word."""

    def __init_subclass__(cls) -> None:
        if cls.WORD:
            Fault.KINDS[cls.WORD] = cls

    @abstractmethod
    def do(self, scene: "Scene") -> str:
        """Start the fault.

        Returns:
            A text on its effect, such as a number of connections; empty if there is nothing to add.

        Raises:
            Unsupported: this cluster cannot have the fault; the message says what is possible.
            LocalError: it is not possible now, or not for these nodes.
        """

    def undo(self, scene: "Scene") -> None:  # noqa: B027 - most of those that do not last have nothing to undo
        """Revert the fault, if it lasts; raises like :meth:`do`."""

    def undone_by(self, other: "Fault") -> bool:  # noqa: ARG002 - by fault
        """True if ``other`` reverts this fault, as ``thaw b`` reverts ``freeze b``."""
        return False

    def missing(self, scene: "Scene") -> str:  # noqa: ARG002 - by fault
        """Return why this cluster cannot have the fault, in any state; empty if it can."""
        return ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes in its text."""
        found = (getattr(self, one.name) for one, part in grammar.parts(type(self)) if part.kind is grammar.NODE)
        return tuple(node for node in found if node)

    @property
    def takes_guests(self) -> bool:
        """True if its text may name virtual machines on the network in place of nodes."""
        return False

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The (sender, receiver) pairs of nodes that it affects."""
        return tuple(pairwise(self.nodes))

    def among(self, names: Mapping[str, str]) -> "Fault":
        """Return the same fault with nodes renamed by ``names``."""
        nodes = {
            one.name: names.get(getattr(self, one.name), getattr(self, one.name))
            for one, part in grammar.parts(type(self))
            if part.kind is grammar.NODE
        }
        return replace(self, **nodes)

    def __str__(self) -> str:
        return grammar.write(self.WORD, self)


@dataclass(frozen=True, slots=True)
class Undo(Fault):
    """Revert a fault that lasts."""

    WORD = "undo"
    AREA = Area.PROCESSES
    EXAMPLE = "undo partition a b"

    fault: Fault

    @override
    def do(self, scene: "Scene") -> str:
        scene.undo(self.fault)
        return ""

    @override
    def missing(self, scene: "Scene") -> str:
        return self.fault.missing(scene)

    @property
    @override
    def nodes(self) -> tuple[str, ...]:
        return self.fault.nodes

    @property
    @override
    def takes_guests(self) -> bool:
        return self.fault.takes_guests

    @override
    def among(self, names: Mapping[str, str]) -> "Undo":
        return Undo(self.fault.among(names))

    def __str__(self) -> str:
        return f"{self.WORD} {self.fault}"


def parse(text: str) -> Fault:
    """Parse the text of a fault.

    Raises:
        TextError: the text is wrong; the message says what is accepted.
    """
    return _parse(grammar.scan(text))


def _parse(words: Scanner) -> Fault:
    column, word = words.column, words.choose("fault", sorted(Fault.KINDS))
    if word == Undo.WORD:
        words.hint = f"; the syntax is undo FAULT, as in {Undo.EXAMPLE}"
        column, fault = words.column, _parse(words)
        if not fault.LASTS:
            raise TextError("fault", column, f"{fault} does not last, so there is nothing to undo")
        return Undo(fault)
    kind = Fault.KINDS[word]
    values = grammar.read(word, kind, words)
    try:
        fault = kind(**values)
    except LocalError as error:
        raise words.error(str(error), column) from None
    if len(set(fault.nodes)) < len(fault.nodes):
        raise words.error(f"{fault.nodes[0]} and {fault.nodes[-1]} must be two nodes", column)
    return fault


@dataclass(frozen=True, slots=True)
class Word:
    """Documentation of a word of the language."""

    word: str
    usage: str
    about: str
    area: str
    lasts: bool
    example: str
    missing: str = ""
    """Why the cluster cannot have the fault; empty if it can, or if no cluster was given."""


def words(scene: "Scene | None" = None) -> list[Word]:
    """Return all words; with a scene, also which of them its cluster cannot have."""
    return [_explained(kind, scene) for kind in Fault.KINDS.values()]


def _explained(kind: type[Fault], scene: "Scene | None") -> Word:
    about = (kind.__doc__ or "").strip().splitlines()[0]
    usage = "undo FAULT" if kind is Undo else grammar.usage(kind.WORD, kind)
    missing = "" if scene is None else _missing_anywhere(kind, scene)
    return Word(kind.WORD, usage, about, kind.AREA.value, kind.LASTS, kind.EXAMPLE, missing)


def _missing_anywhere(kind: type[Fault], scene: "Scene") -> str:
    """Return why no nodes of the cluster can have such a fault, empty if some can; tries the word's example."""
    reasons = []
    for fault in scene.likes_of(parse(kind.EXAMPLE)):
        try:
            reason = fault.missing(scene)
        except Unsupported as error:
            reason = str(error)
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[0] if reasons else "it needs two nodes"
