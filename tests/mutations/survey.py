"""The parts of suites and the mutants that each of them reaches, surveyed again after changes."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.mutations.code import digest_of_file, digest_with_imports
from tests.mutations.jobs import surveyed
from tests.mutations.listing import listed
from tests.mutations.mutant import ROOT, Mutant
from tests.mutations.probes import path_of

_FOLDER = ROOT / "msgrlab-out" / "mutations"
_AT_A_TIME = 25
"""Parts that a process surveys before what it found is kept."""
_CONFTEST = ROOT / "tests" / "conftest.py"
_EVERYWHERE = {"config", "rules", "session.policy", "errors", "outputs"}
"""Modules whose constants and defaults matter wherever anything runs."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a suite."""

    name: str
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
    """Return the survey of a suite; parts whose source or whose modules have changed are surveyed anew.

    What is kept of a part is valid while its own source, what that imports of the tests and the toolkit, and the
    modules of the messenger that it uses are the same. A mutant that is listed since then needs a new survey.
    """
    path = _FOLDER / f"survey-{suite}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    ids = sorted(mutant.id for mutant in listed())
    if not set(ids) <= set(kept.get("asked", ())):
        kept = {"asked": ids, "at_import": [], "groups": {}}
    names = import_module(f"tests.mutations.suites.{suite}").parts()
    groups = {
        name: group for name, group in kept["groups"].items() if name in names and _is_valid(suite, name, group)
    }
    due = [name for name in names if name not in groups]
    if due:
        print(f"{suite}: surveying which mutants {len(due)} of {len(names)} parts reach", flush=True)
        chunks = [due[at : at + _AT_A_TIME] for at in range(0, len(due), _AT_A_TIME)]
        with ThreadPoolExecutor(jobs) as pool:
            for chunk, rows in zip(chunks, pool.map(partial(surveyed, suite), chunks), strict=True):
                kept["at_import"] = sorted({name for row in rows for name in row.get("at_import", ())})
                groups |= {name: _group(suite, name, rows) for name in chunk}
                kept["groups"] = groups
                _write(path, kept)
    found = _survey(groups.values(), kept["at_import"])
    if not found.parts:
        raise SystemExit(f"the survey of {suite} has no result")
    for part in found.parts.values():
        if part.wrong:
            print(f"{suite}: {part.name} is left out, it fails without a mutant: {part.wrong[0]}", flush=True)
    return found


def _write(path: Path, kept: Mapping[str, Any]) -> None:
    """Keep what is surveyed so far, so that an interrupted survey goes on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(kept), encoding="utf-8")
    temporary.replace(path)


def _group(suite: str, name: str, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry for a name that a suite lists: for a test file the rows of its tests, else one row."""
    own = [row for row in rows if row.get("part", "").partition("::")[0] == name]
    modules = sorted({module for row in own for module in row.pop("modules")})
    return {"modules": modules, "version": _version(suite, name, modules), "rows": own}


def _is_valid(suite: str, name: str, group: Mapping[str, Any]) -> bool:
    return group["version"] == _version(suite, name, group["modules"])


def _version(suite: str, name: str, modules: Iterable[str]) -> str:
    """A digest of all that decides what a part reaches."""
    scripts = [ROOT / name, _CONFTEST] if suite == "units" else []
    sources = [Path(__file__).parent / "suites" / f"{suite}.py", *scripts]
    digests = [digest_with_imports(path) for path in sources]
    digests += [digest_of_file(path_of(module)) for module in modules]
    return sha256("".join(digests).encode()).hexdigest()[:8]


def _survey(groups: Iterable[Mapping[str, Any]], at_import: Iterable[str]) -> Survey:
    parts = {
        row["part"]: Part(row["part"], row["seconds"], row["wrong"], frozenset(row["mutants"]))
        for group in groups
        for row in group["rows"]
    }
    return Survey(parts, frozenset(at_import))
