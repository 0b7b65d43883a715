"""Scenarios that notice no mutant by any verdict: mutants that they reach are tried one after the other.

A verdict on a mutant ends with the fourth scenario that notices it, so that half of the scenarios are in none. A
scenario that notices none of the mutants may check less than its title promises.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.jobs import Job, Process
from tests.mutations.listing import applies, listed
from tests.mutations.mutant import Mutant
from tests.mutations.results import Results
from tests.mutations.survey import Part, survey

_FILE = Path(__file__).parent / "witnesses.json"
_SUITE = "catalogue"
_MOST_TRIED = 80
"""Mutants that are tried on a scenario."""
_PARTS = 3
"""Ways in which a scenario is run with a mutant."""
_BUDGET_S = 15.0


@dataclass(frozen=True, slots=True)
class Witnesses:
    """For each scenario a mutant that it notices; empty if it has noticed none of those that were tried."""

    found: Mapping[str, str]

    @classmethod
    def load(cls) -> "Witnesses":
        """Those that were found, without mutants that are no longer listed."""
        known = {mutant.id for mutant in listed()} | {""}
        kept = json.loads(_FILE.read_text(encoding="utf-8")) if _FILE.is_file() else {}
        return cls({scenario: mutant for scenario, mutant in kept.items() if mutant in known})

    def save(self) -> None:
        """Write them."""
        _FILE.write_text(json.dumps(dict(sorted(self.found.items())), indent=1) + "\n", encoding="utf-8")

    @property
    def quiet(self) -> list[str]:
        """Scenarios that have noticed none."""
        return sorted(scenario for scenario, mutant in self.found.items() if not mutant)


def named(results: Results) -> set[str]:
    """Scenarios that a verdict names."""
    return {
        killer.partition(" ")[0]
        for verdicts in results.verdicts.values()
        if _SUITE in verdicts
        for killer in verdicts[_SUITE].killers
    }


def search(jobs: int) -> Iterator[tuple[str, str]]:
    """Try mutants on scenarios that nothing names yet; yields each scenario, and a mutant that it has noticed."""
    parts = survey(_SUITE, jobs).parts
    done = named(Results.load()) | {scenario for scenario, mutant in Witnesses.load().found.items() if mutant}
    by_scenario: dict[str, list[Part]] = defaultdict(list)
    for part in parts.values():
        if not part.wrong and part.name.partition(" ")[0] not in done:
            by_scenario[part.name.partition(" ")[0]].append(part)
    common: dict[str, int] = defaultdict(int)
    for part in parts.values():
        for mutant in part.mutants:
            common[mutant] += 1
    sound = {mutant.id: mutant for mutant in listed() if not mutant.equivalent and applies(mutant) is None}
    idle: SimpleQueue[Process] = SimpleQueue()
    for _ in range(jobs):
        idle.put(Process(_SUITE))

    def one(scenario: str) -> tuple[str, str]:
        reached = {mutant for part in by_scenario[scenario] for mutant in part.mutants} & sound.keys()
        rarest = sorted(reached, key=lambda mutant: common[mutant])[:_MOST_TRIED]
        process = idle.get()
        try:
            return scenario, _first_noticed(process, by_scenario[scenario], (sound[mutant] for mutant in rarest))
        finally:
            idle.put(process)

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, sorted(by_scenario))
    while not idle.empty():
        idle.get().close()


def _first_noticed(process: Process, parts: Iterable[Part], mutants: Iterable[Mutant]) -> str:
    """The first of these mutants that a scenario notices; empty if it notices none."""
    quick = sorted(parts, key=lambda part: part.seconds)
    for mutant in mutants:
        own = tuple(part.name for part in quick if mutant.id in part.mutants)[:_PARTS]
        lines = list(process.lines_of(Job(mutant, own, enough=1, budget_s=_BUDGET_S)))
        if any(line["what"] for line in lines):
            return mutant.id
    return ""
