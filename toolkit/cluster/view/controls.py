"""The buttons of the view; each starts a fault, given as text."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.faults.language import Scene, words


@dataclass(frozen=True, slots=True)
class Control:
    """A button. ``{node}``, ``{a}``, ``{b}`` and ``{ms}`` in its fault are replaced by the user's choices."""

    label: str
    fault: str
    missing: str = ""
    """Why this cluster cannot have the fault; empty if it can."""


_NODE = (
    Control("kill", "kill {node}"),
    Control("start", "start {node}"),
    Control("restart", "restart {node}"),
    Control("freeze", "freeze {node}"),
    Control("continue", "thaw {node}"),
)
_BETWEEN = (
    Control("cut (reset)", "reset {a} {b}"),
    Control("partition", "partition {a} {b}"),
    Control("heal", "heal {a} {b}"),
)
_DELAY = Control("delay", "link {a} {b} delay-ms={ms} --both-ways")
_WHOLE = (Control("mend everything", "mend"),)


@dataclass(frozen=True, slots=True)
class Controls:
    """The buttons by what they apply to."""

    node: tuple[Control, ...]
    between: tuple[Control, ...]
    delay: Control
    whole: tuple[Control, ...]

    @classmethod
    def of(cls, scene: Scene) -> "Controls":
        """Return the buttons for a cluster, with the reasons why some are disabled."""
        missing = {word.word: word.missing for word in words(scene)}

        def asked(control: Control) -> Control:
            return Control(control.label, control.fault, missing[control.fault.split()[0]])

        (delay,) = map(asked, [_DELAY])
        return cls(tuple(map(asked, _NODE)), tuple(map(asked, _BETWEEN)), delay, tuple(map(asked, _WHOLE)))

    @property
    def missing(self) -> list[str]:
        """Reasons why buttons are disabled, a line each."""
        every: Sequence[Control] = [*self.node, *self.between, self.delay, *self.whole]
        return [f"{one.label}: {one.missing}" for one in every if one.missing]
