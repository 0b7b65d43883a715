"""Which suites are run against which mutants, and what comes of it."""

from collections.abc import Iterable, Sequence
from threading import Lock

from tests.mutations.drawing import rank
from tests.mutations.jobs import Job, lines_of
from tests.mutations.mutant import Mutant
from tests.mutations.results import Results
from tests.mutations.survey import Part, survey

SUITES = ("units", "catalogue", "simulator", "exploration")

Task = tuple[Mutant, str, tuple[str, ...], tuple[str, ...]]
"""A mutant, a suite, its parts to run at first, and those to run if the first ones notice nothing."""


class Plan:
    """What is to be run.

    Args:
        results: of before; what comes is added to them, and saved each time.
        suites: which ones.
        again: whether also what did not change.
        quick: leave it at the parts that are run first.
    """

    def __init__(self, results: Results, suites: Sequence[str], *, again: bool, quick: bool) -> None:
        self._results = results
        self._parts = {suite: survey(suite) for suite in suites}
        self._again = again
        self._quick = quick
        self._lock = Lock()

    def jobs(self, mutants: Iterable[Mutant]) -> list[Task]:
        """Those that are due, in an order that means nothing: a run that ends early leaves a fair sample."""
        due = [
            task for suite in self._parts for mutant in mutants if (task := self._task(mutant, suite)) is not None
        ]
        return sorted(due, key=lambda task: rank(task[0]))

    def _task(self, mutant: Mutant, suite: str) -> Task | None:
        parts = self._parts[suite]
        reaching = [part for part in parts.values() if part.reaches(mutant) and not part.wrong]
        before = None if self._again else self._results.of(mutant, suite)
        if before is not None:
            changed = self._results.changed(before, self._digests(suite))
            if before.killed and not changed & {
                part for part in parts if _killer(part) in map(_killer, before.killers)
            }:
                changed = changed if suite == "catalogue" else set()
            reaching = [part for part in reaching if part.name in changed]
            if not reaching and (before.killed or before.deep or self._quick or suite != "catalogue"):
                return None
        first, rest = _in_order(suite, reaching, mutant)
        return mutant, suite, first, () if self._quick else rest

    def _digests(self, suite: str) -> dict[str, str]:
        return {name: part.digest for name, part in self._parts[suite].items()}

    def carry_out(self, mutant: Mutant, suite: str, first: tuple[str, ...], rest: tuple[str, ...]) -> str:
        """Run a task and keep its verdict; what came of it, in a line."""
        killers = self._killers(Job(mutant, suite, first))
        deep = bool(not killers and rest)
        if deep:
            killers = self._killers(Job(mutant, suite, rest, deep=True))
        with self._lock:
            before = self._results.of(mutant, suite)
            ran = {_killer(part) for part in (*first, *(rest if deep else ()))}
            kept = [] if before is None or self._again else [k for k in before.killers if _killer(k) not in ran]
            names = sorted({_named(suite, part, what) for part, what in killers.items()} | set(kept))
            self._results.put(mutant, suite, self._digests(suite), names, deep=deep or not rest)
            self._results.save()
        return f"{suite}: {mutant.id}: " + (f"killed by {', '.join(names[:5])}" if names else "survives")

    def _killers(self, job: Job) -> dict[str, str]:
        """What each part that noticed the mutant says."""
        if not job.parts:
            return {}
        return {line["part"]: line["what"] for line in lines_of(job) if line["what"]}


def _killer(part: str) -> str:
    """The file of a test, the id of a scenario, the name of another part."""
    return part.partition("::")[0].partition(" ")[0]


def _named(suite: str, part: str, what: str) -> str:
    """A killer as results name it."""
    if suite == "units":
        return f"{part}::{what}"
    if suite == "catalogue":
        return part.partition(" ")[0]
    return what if suite == "simulator" else part


def _in_order(suite: str, parts: list[Part], mutant: Mutant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts to run at first, and the others."""
    if suite == "units":
        words = set(mutant.where.replace(":", ".").lower().split("."))
        return tuple(
            part.name for part in sorted(parts, key=lambda part: (-_likeness(part, words), part.seconds))
        ), ()
    if suite != "catalogue":
        return tuple(part.name for part in sorted(parts, key=lambda part: part.seconds)), ()
    first: list[str] = []
    rest: list[str] = []
    for scenario in dict.fromkeys(_killer(part.name) for part in parts):
        usual: set[str] = set()
        for part in parts:
            if _killer(part.name) == scenario:
                protocol = part.name.split()[1][:2]
                (rest if protocol in usual else first).append(part.name)
                usual.add(protocol)
    return tuple(first), (*first, *rest)


def _likeness(part: Part, words: set[str]) -> int:
    """How many words a test file's path shares with the place of a mutant."""
    path = part.name.removesuffix(".py").replace("test_", "").split("/")
    return len(words & set(path))
