"""What suites consist of and which lines each part runs: found out once, and again when anything has changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from tests.mutations.jobs import Job, lines_of
from tests.mutations.mutant import ROOT, Mutant

_FOLDER = ROOT / "msgrlab-out" / "mutations"
_SOURCES = (
    "messenger",
    *(f"toolkit/{package}" for package in ("node", "lab", "scenarios", "simulation", "exploration")),
    "tests/messenger",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a suite."""

    name: str
    digest: str
    seconds: float
    """Processor time that it takes without a mutant, while its lines are noted."""
    wrong: list[str]
    """What it complains of without a mutant."""
    lines: Mapping[str, frozenset[int]]
    """Numbers of the lines that it runs, by module of the messenger."""

    def reaches(self, mutant: Mutant) -> bool:
        """Whether it runs what the mutant changes; of code outside functions, anything of the module."""
        module = mutant.where.partition(":")[0]
        if mutant.is_called:
            return not self.lines.get(module, _NONE).isdisjoint(_changed_lines(mutant))
        return module in self.lines or module in _EVERYWHERE


@cache
def _changed_lines(mutant: Mutant) -> frozenset[int]:
    """As the mutant finds them, which takes a parse of its module: once, not for each of thousands of parts."""
    return mutant.statement_lines()


_NONE: frozenset[int] = frozenset()
_EVERYWHERE = {"config", "rules", "session.policy", "errors", "outputs"}
"""Modules whose constants and defaults matter wherever anything runs."""


def survey(suite: str) -> dict[str, Part]:
    """The parts of a suite by name, from the last survey if nothing has changed since."""
    path = _FOLDER / f"survey-{suite}.json"
    digest = _digest()
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["digest"] == digest:
            return {row["name"]: _part(row) for row in kept["parts"]}
    print(f"{suite}: surveying what it runs", flush=True)
    lines = [line for line in lines_of(Job(None, suite, None)) if "digest" in line]
    if not lines:
        raise SystemExit(f"the survey of {suite} has no result: is coverage installed, as `make mutants` does?")
    rows = [{"name": line.pop("part"), **line} for line in lines]
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"digest": digest, "parts": rows}), encoding="utf-8")
    return {row["name"]: _part(row) for row in rows}


def _part(row: dict[str, Any]) -> Part:
    lines = {module: frozenset(numbers) for module, numbers in row["lines"].items()}
    return Part(**{**row, "lines": lines})


def _digest() -> str:
    """Of every source that a survey depends on."""
    total = sha256()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()
