"""What suites consist of and which mutants each part reaches: noted once, and again when anything has changed."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.mutations.code import digest_of
from tests.mutations.jobs import surveyed
from tests.mutations.mutant import ROOT, Mutant

_FOLDER = ROOT / "msgrlab-out" / "mutations"
_SOURCES = ("messenger", "tests/mutations/suites", "tests/mutations/listed")
_LAB = ("toolkit/node", "toolkit/lab", "toolkit/checks")
_SOURCES_OF = {
    "units": ("tests/messenger", "tests/support", "toolkit/lab"),
    "catalogue": ("toolkit/scenarios", *_LAB),
    "simulator": ("toolkit/simulation", *_LAB),
    "exploration": ("toolkit/exploration", *_LAB),
}
_EVERYWHERE = {"config", "rules", "session.policy", "errors", "outputs"}
"""Modules whose constants and defaults matter wherever anything runs."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a suite."""

    name: str
    digest: str
    seconds: float
    """Processor time that it takes without a mutant."""
    wrong: list[str]
    """What it complains of without a mutant."""
    mutants: frozenset[str]
    """The ids of those that it reaches; of code outside functions, those in whose modules it runs a function."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A suite."""

    parts: Mapping[str, Part]
    at_import: frozenset[str]
    """The ids of mutants whose code runs as the messenger is imported."""

    def reaching(self, mutant: Mutant) -> list[Part]:
        """The parts that reach a mutant; all parts, if it may change what any of them does.

        Those that complain without a mutant are left out.
        """
        sound = [part for part in self.parts.values() if not part.wrong]
        reaching = [part for part in sound if mutant.id in part.mutants]
        outside = mutant.id in self.at_import or not mutant.is_called
        if outside and (not reaching or mutant.module.removeprefix("messenger.") in _EVERYWHERE):
            return sound
        return reaching


def survey(suite: str, jobs: int) -> Survey:
    """A suite as it was last surveyed, if nothing has changed since; else by so many processes."""
    path = _FOLDER / f"survey-{suite}.json"
    digest = _digest(suite)
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["digest"] == digest:
            return _survey(kept["rows"])
    print(f"{suite}: surveying which mutants it reaches", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        shares = list(pool.map(lambda number: surveyed(suite, f"{number}/{jobs}"), range(jobs)))
    rows = [row for share in shares for row in share]
    found = _survey(rows)
    if not found.parts:
        raise SystemExit(f"the survey of {suite} has no result")
    for part in found.parts.values():
        if part.wrong:
            print(f"{suite}: {part.name} is left out, it fails without a mutant: {part.wrong[0]}", flush=True)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"digest": digest, "rows": rows}), encoding="utf-8")
    return found


def _survey(rows: list[dict[str, Any]]) -> Survey:
    parts = {
        row["part"]: Part(row["part"], row["digest"], row["seconds"], row["wrong"], frozenset(row["mutants"]))
        for row in rows
        if "part" in row
    }
    return Survey(parts, frozenset(name for row in rows for name in row.get("at_import", ())))


def _digest(suite: str) -> str:
    """Of every source that a survey depends on."""
    return digest_of(
        path.read_text(encoding="utf-8")
        for folder in (*_SOURCES, *_SOURCES_OF[suite])
        for path in sorted(path for kind in ("*.py", "*.toml") for path in (ROOT / folder).rglob(kind))
    )
