"""Which suites are run against which mutants, and what comes of it."""

from collections.abc import Iterable, Sequence
from threading import Lock

from tests.mutations.drawing import rank
from tests.mutations.jobs import Job, Process
from tests.mutations.mutant import Mutant
from tests.mutations.results import Results
from tests.mutations.survey import Part, survey

SUITES = ("units", "catalogue", "simulator", "exploration")
_ORDER = ("catalogue", "units", "exploration", "simulator")
"""In which suites are run: the ones that say most first."""
ENOUGH = {"catalogue": 4}
"""How many scenarios are to notice a mutant: one more than are named on the page. One part of other suites is."""
_CONFIRMED = {"units"}
"""Suites with tests on real time: a failure counts if the test fails once more."""
_USUAL_WAYS = ("v2-crc", "v1")

Task = tuple[Mutant, str, tuple[str, ...]]
"""A mutant, a suite, and its parts to run, in this order."""


class Plan:
    """What is to be run.

    Args:
        results: of before; what comes is added to them, and saved each time.
        suites: which ones.
        again: whether also what did not change.
        budget_s: processor time for a mutant and a suite, after which no part is begun.
        jobs: processes at a time for surveys.
    """

    def __init__(
        self, results: Results, suites: Sequence[str], *, again: bool, budget_s: float, jobs: int
    ) -> None:
        self._results = results
        self._surveys = {suite: survey(suite, jobs) for suite in _ORDER if suite in suites}
        self._digests = {
            suite: {_source(suite, part.name): part.digest for part in found.parts.values()}
            for suite, found in self._surveys.items()
        }
        self._again = again
        self._budget_s = budget_s
        self._lock = Lock()
        self._idle: dict[str, list[Process]] = {suite: [] for suite in suites}

    def tasks(self, mutants: Iterable[Mutant]) -> list[Task]:
        """Those that are due: suite by suite, in an order that means nothing, so that a part is a fair sample."""
        ordered = sorted(mutants, key=rank)
        due = (self._task(mutant, suite) for suite in self._surveys for mutant in ordered)
        return [task for task in due if task is not None]

    def _task(self, mutant: Mutant, suite: str) -> Task | None:
        """None if its verdict holds: the mutant's killers are as they were, or no part that reaches it changed.

        A verdict of which some parts were not run for lack of time is made again if more time may be used.
        """
        reaching = self._surveys[suite].reaching(mutant)
        before = None if self._again else self._results.of(mutant, suite)
        if before is not None:
            changed = self._results.changed(before, self._digests[suite])
            killers = {_source(suite, killer) for killer in before.killers}
            concerned = killers if before.killed else {_source(suite, part.name) for part in reaching}
            new = bool(reaching) and not before.reached
            more = not before.deep and self._budget_s > before.budget_s
            if not new and not more and not changed & concerned:
                return None
        return mutant, suite, _in_order(suite, reaching, mutant)

    def carry_out(self, mutant: Mutant, suite: str, parts: tuple[str, ...]) -> str:
        """Run a task and keep its verdict; what came of it, in a line."""
        killers, whole = self._killers(mutant, suite, parts) if parts else ({}, True)
        names = sorted({_named(suite, part, what) for part, what in killers.items()})
        with self._lock:
            budget_s = 0.0 if whole else self._budget_s
            self._results.put(
                mutant, suite, self._digests[suite], names, deep=whole, reached=bool(parts), budget_s=budget_s
            )
            self._results.save()
        survived = "survives" if whole else f"survives what was run in {self._budget_s:g} s"
        outcome = f"killed by {', '.join(names)}" if names else survived if parts else "not reached"
        return f"{suite}: {mutant.id}: {outcome}"

    def _killers(self, mutant: Mutant, suite: str, parts: Sequence[str]) -> tuple[dict[str, str], bool]:
        """What each part that noticed the mutant says, and whether every part was run that had to be."""
        at_import = mutant.id in self._surveys[suite].at_import or not mutant.is_called
        enough = ENOUGH.get(suite, 1)
        process = self._process(suite)
        left = list(parts)
        while True:
            ran, killers = _run(process, Job(mutant, tuple(left), at_import, enough, self._budget_s))
            left = left[left.index(ran) + 1 :] if ran in left else []
            doubted = suite in _CONFIRMED and bool(killers)
            if doubted and not _run(process, Job(mutant, (ran,), at_import))[1]:
                killers = {}
                if left:
                    continue
            break
        with self._lock:
            self._idle[suite].append(process)
        return killers, len({part.partition(" ")[0] for part in killers}) >= enough or not left

    def _process(self, suite: str) -> Process:
        """One that has nothing to do."""
        with self._lock:
            if self._idle[suite]:
                return self._idle[suite].pop()
        return Process(suite)

    def close(self) -> None:
        """End the processes."""
        for processes in self._idle.values():
            while processes:
                processes.pop().close()


def _run(process: Process, job: Job) -> tuple[str, dict[str, str]]:
    """The last part that a job began, and what each part says that noticed the mutant."""
    last, killers = "", {}
    for line in process.lines_of(job):
        last = line["part"]
        if line["what"]:
            killers[last] = line["what"]
    return last, killers


def _source(suite: str, part: str) -> str:
    """What a part, or a killer, is written in: the file of a test, a scenario; of other suites, all one."""
    if suite in {"simulator", "exploration"}:
        return suite
    return part.partition("::")[0].partition(" ")[0]


def _named(suite: str, part: str, what: str) -> str:
    """A killer as results name it."""
    late = " (too long)" if "TooLong" in what else ""
    if suite == "catalogue":
        return part.partition(" ")[0] + late
    return what if suite == "simulator" else part + late


def _in_order(suite: str, parts: list[Part], mutant: Mutant) -> tuple[str, ...]:
    """The quick parts first; of units, those about the mutant's module; of the catalogue, each scenario once."""
    quick = sorted(parts, key=lambda part: part.seconds)
    if suite == "units":
        words = set(mutant.where.replace(":", ".").lower().split("."))
        quick.sort(key=lambda part: -_likeness(part, words))
    if suite == "catalogue":
        seen: set[str] = set()
        first = []
        for part in sorted(quick, key=lambda part: part.name.split()[1] not in _USUAL_WAYS):
            scenario, protocol = part.name.partition(" ")[0], part.name.split()[1][:2]
            if f"{scenario} {protocol}" not in seen:
                first.append(part)
            seen.add(f"{scenario} {protocol}")
        names = {part.name for part in first}
        quick = [*sorted(first, key=lambda part: part.seconds), *(p for p in quick if p.name not in names)]
    return tuple(part.name for part in quick)


def _likeness(part: Part, words: set[str]) -> int:
    """How many words a test file's path shares with the place of a mutant."""
    path = part.name.partition("::")[0].removesuffix(".py").replace("test_", "").split("/")
    return len(words & set(path))
