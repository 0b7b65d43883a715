"""The verdict of each suite on each mutant, kept in ``results.json``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.mutations.code import digest_of
from tests.mutations.mutant import Mutant, NotApplicable

PATH = Path(__file__).parent / "results.json"
Parts = Mapping[str, str]
"""The parts of a suite with their digests."""


@dataclass(slots=True)
class Verdict:
    """The verdict of a suite on a mutant."""

    killers: list[str]
    """What noticed it: scenarios, a test, a seed or a scope; empty: it has survived."""
    code: str
    """Digest of the function as it was."""
    version: str
    """Which parts there were."""
    deep: bool = False
    """Whether every part was run that reaches the mutant, or as many as there was time for."""
    reached: bool = True
    """Whether any part reaches it."""
    budget_s: float = 0.0
    """Processor time that there was, if not every part was run."""

    @property
    def killed(self) -> bool:
        """True if any part noticed it."""
        return bool(self.killers)


@dataclass(slots=True)
class Results:
    """All verdicts, by the id of the mutant and the name of the suite."""

    verdicts: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """The parts of a suite at some time, by a digest of them."""

    @classmethod
    def load(cls, path: Path = PATH) -> "Results":
        """Those of before; none if there are none."""
        if not path.is_file():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        verdicts = {
            name: {suite: Verdict(**values) for suite, values in suites.items()}
            for name, suites in kept["verdicts"].items()
        }
        return cls(verdicts, kept["versions"])

    def save(self, path: Path = PATH) -> None:
        """Keep them; a line for each verdict, so that changes can be read."""
        used = {verdict.version for suites in self.verdicts.values() for verdict in suites.values()}
        self.versions = {version: parts for version, parts in self.versions.items() if version in used}
        lines = []
        for name in sorted(self.verdicts):
            suites = [
                f"   {json.dumps(suite)}: {json.dumps(_as_json(verdict))}"
                for suite, verdict in sorted(self.verdicts[name].items())
            ]
            lines.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(suites) + "\n  }")
        versions = [f"  {json.dumps(name)}: {json.dumps(parts)}" for name, parts in sorted(self.versions.items())]
        text = (
            '{\n "verdicts": {\n'
            + ",\n".join(lines)
            + '\n },\n "versions": {\n'
            + ",\n".join(versions)
            + "\n }\n}\n"
        )
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    def of(self, mutant: Mutant, suite: str) -> Verdict | None:
        """The verdict on a mutant, if its function is still the same."""
        verdict = self.verdicts.get(mutant.id, {}).get(suite)
        return verdict if verdict is not None and verdict.code == code_digest(mutant) else None

    def put(
        self,
        mutant: Mutant,
        suite: str,
        parts: Parts,
        killers: list[str],
        *,
        deep: bool,
        reached: bool = True,
        budget_s: float = 0.0,
    ) -> None:
        """Keep a verdict."""
        version = parts_digest(parts)
        self.versions[version] = dict(parts)
        verdict = Verdict(sorted(killers), code_digest(mutant), version, deep, reached, budget_s)
        self.verdicts.setdefault(mutant.id, {})[suite] = verdict

    def keep_only(self, mutants: list[Mutant]) -> None:
        """Forget mutants that are not listed any more."""
        ids = {mutant.id for mutant in mutants}
        self.verdicts = {name: suites for name, suites in self.verdicts.items() if name in ids}

    def changed(self, verdict: Verdict, parts: Parts) -> set[str]:
        """The parts that are new or others since a verdict."""
        before = self.versions.get(verdict.version, {})
        return {part for part, digest in parts.items() if before.get(part) != digest}


def _as_json(verdict: Verdict) -> dict[str, Any]:
    values: dict[str, Any] = {"killers": verdict.killers, "code": verdict.code, "version": verdict.version}
    values |= {"deep": True} if verdict.deep else {"budget_s": verdict.budget_s}
    return values | ({} if verdict.reached else {"reached": False})


@cache
def code_digest(mutant: Mutant) -> str:
    """Return the digest of the function that a mutant changes; for module-level code, of the line alone."""
    try:
        source = mutant.source() if mutant.function else mutant.before
    except NotApplicable:
        source = ""
    return digest_of([source])


def parts_digest(parts: Parts) -> str:
    """Return the digest of all parts together."""
    return sha256(json.dumps(dict(parts), sort_keys=True).encode()).hexdigest()[:8]
