"""A timeline: faults and their times, as plain data that can be written, read and shrunk.

A lasting fault is reverted by its own step, ``undo partition a b``. Any part of a timeline is a valid
timeline: a step that is impossible at its time (such as killing a dead node) is recorded and skipped.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Self

from messenger.errors import LocalError
from messenger.files import read_text
from toolkit.faults.language import Fault, Undo, parse
from toolkit.scanner import plain

if TYPE_CHECKING:
    from toolkit.cluster.spec.model import Moment

_LONGEST_S = 7 * 86_400.0
_MOST_BYTES = 1_000_000
_MOST_VALUES = 100_000
_LONGEST_FAULT = 4096
"""In characters."""


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A fault and its time."""

    at_s: float
    """Seconds since the timeline began."""
    fault: Fault

    def __str__(self) -> str:
        return f"{self.at_s:8.3f}  {self.fault}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps in order of time."""

    steps: tuple[TimelineStep, ...] = ()

    @classmethod
    def of(cls, steps: Iterable[TimelineStep]) -> Self:
        """Return a timeline of steps in any order; steps of the same time keep their order."""
        return cls(tuple(sorted(steps, key=lambda step: step.at_s)))

    @classmethod
    def of_moments(cls, moments: "Iterable[Moment]") -> Self:
        """Return the timeline of a cluster's spec.

        Raises:
            LocalError: a fault does not parse; the message names it.
        """
        return cls.of(
            TimelineStep(moment.at_s, _fault(moment.fault, f"timeline, {moment.at_s:g} s")) for moment in moments
        )

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read the YAML that :meth:`yaml` writes, or the ``timeline`` of a cluster's spec.

        Raises:
            LocalError: it cannot be read, is not a timeline, or is longer than a million bytes; the message says
                where.
        """
        return cls.parse(read_text(path, _MOST_BYTES, "timeline"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "timeline") -> Self:
        """Parse the text of a file; ``name`` is used in errors.

        Raises:
            LocalError: it is not a timeline; the message says where.
        """
        from toolkit.cluster.spec.document import BadDocument, parse_document  # noqa: PLC0415 - ruamel loads slowly

        try:
            document = parse_document(text, _MOST_BYTES, _MOST_VALUES)
        except BadDocument as error:
            raise LocalError(f"{name}:{error.line}: {error.text}") from None
        for mistake in document.mistakes[:1]:
            raise LocalError(f"{name}:{document.line_of(mistake.place)}: {mistake.text}")
        return cls.of_values(document.value, name)

    @classmethod
    def of_values(cls, values: object, name: str = "timeline") -> Self:
        """Return the timeline in a list of steps, or in the ``timeline`` of an object.

        ::

            Timeline.of_values([{"at_s": 1.0, "fault": "reset a b"}])

        Raises:
            LocalError: the values are not a timeline; the message says where.
        """
        if isinstance(values, dict):
            values = values.get("timeline", ())
        if not isinstance(values, list | tuple):
            raise LocalError(f"{name}: a timeline is a list of {{at_s: SECONDS, fault: FAULT}}")
        return cls.of(_step(one, f"{name}: step {number}") for number, one in enumerate(values, 1))

    def values(self) -> list[dict[str, Any]]:
        """Return the steps as JSON, in the format of a spec's ``timeline``."""
        return [{"at_s": step.at_s, "fault": str(step.fault)} for step in self.steps]

    def yaml(self, about: str = "") -> str:
        """Return the timeline as YAML for a cluster's spec; ``about`` becomes a comment."""
        lines = [f"# {line}" for line in about.splitlines()] + ["timeline:" if self.steps else "timeline: []"]
        lines += [f"- {{at_s: {plain(step.at_s)}, fault: {json.dumps(str(step.fault))}}}" for step in self.steps]
        return "\n".join(lines) + "\n"

    @property
    def duration_s(self) -> float:
        """Time of its last step."""
        return self.steps[-1].at_s if self.steps else 0.0

    def units(self) -> list[tuple[int, ...]]:
        """Return the indexes of steps that belong together: a lasting fault, and the step that reverts it."""
        found: list[list[int]] = []
        open_units: dict[Fault, list[int]] = {}
        for place, step in enumerate(self.steps):
            if isinstance(step.fault, Undo) and step.fault.fault in open_units:
                open_units.pop(step.fault.fault).append(place)
                continue
            found.append([place])
            if step.fault.LASTS:
                open_units[step.fault] = found[-1]
        return [tuple(unit) for unit in found]

    def only(self, units: Sequence[tuple[int, ...]]) -> "Timeline":
        """Return the timeline of these units alone."""
        places = sorted(place for unit in units for place in unit)
        return Timeline(tuple(self.steps[place] for place in places))

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[TimelineStep]:
        return iter(self.steps)


def _step(values: object, where: str) -> TimelineStep:
    if not isinstance(values, dict) or values.keys() != {"at_s", "fault"}:
        raise LocalError(f"{where} is not {{at_s: SECONDS, fault: FAULT}}, but {shortened(values)}")
    at_s, fault = values["at_s"], values["fault"]
    if type(at_s) not in {int, float} or not 0 <= at_s <= _LONGEST_S:
        raise LocalError(f"{where}: at_s is {shortened(at_s)}; give seconds since the cluster was ready")
    if len(text := str(fault)) > _LONGEST_FAULT:
        raise LocalError(f"{where}: a fault of {len(text)} characters, {_LONGEST_FAULT} are possible")
    return TimelineStep(float(at_s), _fault(text, where))


def _fault(text: str, where: str) -> Fault:
    try:
        return parse(text)
    except LocalError as error:
        raise LocalError(f"{where}: {error}") from None
