"""Runs suites against mutants, and collects the verdicts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Lock

from tests.mutations.drawing import rank
from tests.mutations.jobs import Job, Process
from tests.mutations.mutant import Mutant
from tests.mutations.results import Results, Verdict
from tests.mutations.survey import Part, Survey, survey

SUITES = ("units", "catalogue", "simulator", "exploration")
_ORDER = ("catalogue", "units", "exploration", "simulator")
"""In which suites are run: the ones that say most first."""
ENOUGH = {"catalogue": 4}
"""How many scenarios are to notice a mutant: one more than are named on the page. One part of other suites is."""
_CONFIRMED = {"units"}
"""Suites with tests on real time: a failure counts if the test fails once more."""
_USUAL_WAYS = ("v2-crc", "v1")
LATE = " (too long)"
"""Added to the name of a killer that ran into its limit."""

Task = tuple[Mutant, str]
"""A mutant, and the name of a suite."""
_SMALL_S = 0.01
"""Tests that take less count the same."""
_FIRST_FILES = 3
"""Units are run in batches, since pytest reads every file of a batch: first the tests of so many files."""


class Plan:
    """The work of a run.

    Args:
        results: earlier verdicts; new ones are added and saved at once.
        suites: the suites to run.
        again: True to run also what has not changed.
        budget_s: processor time for a mutant and a suite, after which no part is begun.
        jobs: processes at a time for surveys.
    """

    def __init__(
        self, results: Results, suites: Sequence[str], *, again: bool, budget_s: float, jobs: int
    ) -> None:
        self._results = results
        self._suites = [suite for suite in _ORDER if suite in suites]
        modules = {suite: import_module(f"tests.mutations.suites.{suite}") for suite in self._suites}
        self._names: dict[str, list[str]] = {suite: module.parts() for suite, module in modules.items()}
        self._digests = {
            suite: {_source(suite, name): module.digest(name) for name in self._names[suite]}
            for suite, module in modules.items()
        }
        self._surveys: dict[str, Survey] = {}
        self._again = again
        self._budget_s = budget_s
        self._jobs = jobs
        self._lock = Lock()
        self._survey_lock = Lock()
        self._idle: dict[str, list[Process]] = {suite: [] for suite in suites}

    def tasks(self, mutants: Iterable[Mutant]) -> list[Task]:
        """Those that are due: suite by suite, in an order that means nothing, so that a part is a fair sample."""
        ordered = sorted(mutants, key=rank)
        return [(mutant, suite) for suite in self._suites for mutant in ordered if self._is_due(mutant, suite)]

    def _is_due(self, mutant: Mutant, suite: str) -> bool:
        """False if its verdict holds: the mutant's killers are as they were, or nothing in the suite changed.

        A verdict of which some parts were not run for lack of time is made again if more time may be used.
        """
        before = self._before(mutant, suite)
        if before is None or (not before.deep and self._budget_s > before.budget_s):
            return True
        changed = self._results.changed(before, self._digests[suite])
        sources = {_source(suite, killer) for killer in before.killers}
        return bool(changed & sources if before.killed else changed)

    def _before(self, mutant: Mutant, suite: str) -> Verdict | None:
        """The last verdict, if the mutant's function is the same."""
        return None if self._again else self._results.of(mutant, suite)

    def _survey(self, suite: str) -> Survey:
        """The survey of a suite, which is made when it is first needed."""
        with self._survey_lock:
            if suite not in self._surveys:
                self._surveys[suite] = survey(suite, self._jobs)
            return self._surveys[suite]

    def try_likely(self, mutant: Mutant, suite: str, *, save: bool = True) -> str | None:
        """Run what is likely to kill a mutant and needs no survey; None if that is not enough for a verdict.

        The verdict is kept, by default in the file; returned is what came of it, in a line.
        """
        parts = self._likely(mutant, suite)
        killers = self._killers(mutant, suite, parts, surveyed=False)[0] if parts else {}
        if _count(killers) < ENOUGH.get(suite, 1):
            return None
        return self._keep(mutant, suite, killers, whole=True, reached=True, save=save)

    def carry_out(self, mutant: Mutant, suite: str, *, save: bool = True) -> str:
        """Run what the survey names, and keep the verdict, by default in the file; what came of it, in a line."""
        survived_before = self._has_survived(self._before(mutant, suite))
        parts = self._due_parts(mutant, suite)
        killers, whole = self._killers(mutant, suite, parts, surveyed=True) if parts else ({}, True)
        return self._keep(mutant, suite, killers, whole=whole, reached=bool(parts) or survived_before, save=save)

    def _keep(
        self, mutant: Mutant, suite: str, killers: Mapping[str, str], *, whole: bool, reached: bool, save: bool
    ) -> str:
        names = sorted({_named(suite, part, what) for part, what in killers.items()})
        with self._lock:
            budget_s = 0.0 if whole else self._budget_s
            self._results.put(
                mutant, suite, self._digests[suite], names, deep=whole, reached=reached, budget_s=budget_s
            )
            if save:
                self._results.save()
        survived = "survives" if whole else f"survives what was run in {self._budget_s:g} s"
        outcome = f"killed by {', '.join(names)}" if names else survived if reached else "not reached"
        return f"{suite}: {mutant.id}: {outcome}"

    def _likely(self, mutant: Mutant, suite: str) -> tuple[str, ...]:
        """Parts that need no survey: what killed the mutant before, and the tests of its module.

        None for a mutant that has survived all of a suite: only what has changed since is run.
        """
        if self._has_survived(self._before(mutant, suite)):
            return ()
        before = self._results.verdicts.get(mutant.id, {}).get(suite)
        killers = before.killers if before is not None else []
        names = [name for name in self._names[suite] if any(_is_of(suite, name, killer) for killer in killers)]
        if suite == "units":
            exact = [killer.removesuffix(LATE) for killer in killers if _source(suite, killer) in names]
            mirrored = [name for name in self._names[suite] if mirrors(name, mutant)]
            names = [*exact, *(name for name in mirrored if name not in names)]
        return tuple(_one_of_each(suite, names))

    @staticmethod
    def _has_survived(before: Verdict | None) -> bool:
        """True if every part that reached the mutant was run, and none killed it."""
        return before is not None and before.deep and before.reached and not before.killed

    def _due_parts(self, mutant: Mutant, suite: str) -> tuple[str, ...]:
        """The parts that reach a mutant; of one that has survived all of them, those that changed since."""
        reaching = self._survey(suite).reaching(mutant)
        before = self._before(mutant, suite)
        if before is not None and self._has_survived(before):
            changed = self._results.changed(before, self._digests[suite])
            reaching = [part for part in reaching if _source(suite, part.name) in changed]
        return _in_order(suite, reaching, mutant)

    def _killers(
        self, mutant: Mutant, suite: str, parts: Sequence[str], *, surveyed: bool
    ) -> tuple[dict[str, str], bool]:
        """Return the findings of the parts that noticed the mutant, and True if every necessary part was run."""
        at_import = not mutant.is_called or (surveyed and mutant.id in self._survey(suite).at_import)
        enough = ENOUGH.get(suite, 1)
        process = self._process(suite)
        killers: dict[str, str] = {}
        stopped, left_s = False, self._budget_s
        for batch in _batches(suite, parts):
            left = list(batch)
            while left and not stopped and _count(killers) < enough:
                ran, noticed, used_s = _run(process, Job(mutant, tuple(left), at_import, enough, left_s))
                left_s = max(0.0, left_s - used_s)
                left = left[left.index(ran) + 1 :] if ran in left else [] if ran else left
                again = Job(mutant, tuple(noticed), at_import)
                if noticed and not _is_confirmed(process, again, suite, surveyed=surveyed):
                    continue
                killers |= noticed
                stopped = bool(left)
        with self._lock:
            self._idle[suite].append(process)
        return killers, not stopped or _count(killers) >= enough

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


def _run(process: Process, job: Job) -> tuple[str, dict[str, str], float]:
    """Return the last part that a job began, the findings that name the mutant, and the processor time."""
    last, killers, used_s = "", {}, 0.0
    for line in process.lines_of(job):
        last, used_s = line["part"], max(used_s, line["used_s"])
        if line["what"]:
            killers[last] = line["what"]
    return last, killers, used_s


def _is_confirmed(process: Process, job: Job, suite: str, *, surveyed: bool) -> bool:
    """True if what failed fails again if in doubt, and, if not surveyed, passes without the mutant."""
    fails_again = suite not in _CONFIRMED or bool(_run(process, job)[1])
    return fails_again and (surveyed or not _run(process, replace(job, mutant=None))[1])


def _count(killers: Iterable[str]) -> int:
    """Return the number of parts; those of a scenario count once."""
    return len({part.partition(" v")[0] for part in killers})


def _source(suite: str, part: str) -> str:
    """Return the source of a part or a killer: the file of a test, a scenario; one for all in other suites."""
    if suite in {"simulator", "exploration"}:
        return suite
    return part.partition("::")[0].partition(" ")[0]


def _is_of(suite: str, name: str, killer: str) -> bool:
    """True if a part that a suite lists is the one, or the file or scenario, that results name as a killer."""
    return _source(suite, name) == _source(suite, killer) and (
        suite in {"units", "catalogue"} or killer.partition(":")[0].removesuffix(LATE) == name
    )


def mirrors(name: str, mutant: Mutant) -> bool:
    """True if a test file is named after the module of a mutant or a part of its name, or adds a subject."""
    *folder, module = mutant.where.partition(":")[0].split(".")
    file = Path(name)
    stem = file.stem.removeprefix("test_")
    alike = stem == module or stem.startswith(f"{module}_") or module.startswith(f"{stem}_")
    return list(file.parent.parts[2:]) == folder and alike


def _one_of_each(suite: str, names: Iterable[str]) -> Iterator[str]:
    """Yield one part of a scenario for each protocol, and all parts of other suites."""
    seen = set()
    for name in names:
        key = name.partition("-")[0] if suite == "catalogue" else name
        if key not in seen:
            yield name
        seen.add(key)


def _batches(suite: str, parts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Parts in batches that are run one after the other: of units, first those of a few files."""
    if suite != "units":
        yield parts
        return
    files = list(dict.fromkeys(_source(suite, part) for part in parts))
    at, width = 0, _FIRST_FILES
    while at < len(files):
        chosen = set(files[at : at + width])
        yield [part for part in parts if _source(suite, part) in chosen]
        at, width = at + width, width * 4


def _named(suite: str, part: str, what: str) -> str:
    """A killer as results name it."""
    late = LATE if "TooLong" in what else ""
    if suite == "catalogue":
        return part.partition(" ")[0] + late
    return what if suite == "simulator" else part + late


def _in_order(suite: str, parts: list[Part], mutant: Mutant) -> tuple[str, ...]:
    """The quick parts first; of the catalogue, each scenario once.

    Of units, those about the mutant's module come first, and then those that reach little else.
    """
    quick = sorted(parts, key=lambda part: part.seconds)
    if suite == "units":
        words = set(mutant.where.replace(":", ".").lower().split("."))
        quick.sort(key=lambda part: (-_likeness(part, words), (part.seconds + _SMALL_S) * len(part.mutants)))
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
    """Return the number of words that a test file's path shares with the place of a mutant."""
    path = part.name.partition("::")[0].removesuffix(".py").replace("test_", "").split("/")
    return len(words & set(path))
