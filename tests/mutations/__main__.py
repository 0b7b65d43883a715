"""``make mutants``, or ``python -m tests.mutations``: which suite notices which mutant.

Every mutant listed is run against every suite by itself: unit tests, catalogue, simulator, exploration. Verdicts
are kept in results.json, and only what may have changed is run again: mutants whose function changed, and
the parts of a suite that changed. A run that was interrupted goes on where it stopped.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.mutations.listing import AREAS, applies, drawn, listed, write
from tests.mutations.mutant import Mutant
from tests.mutations.page import summary
from tests.mutations.results import Results
from tests.mutations.running import SUITES, Plan, Task
from tests.mutations.witnesses import Witnesses, search

_UNUSABLE = 2


def main() -> int:
    """0, or 1 if a mutant survives that has no reason to, or 2 for wrong words."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument(
        "words", nargs="*", metavar="AREA or part of a mutant's id", help="which; all unless given"
    )
    parser.add_argument("--suite", action="append", choices=SUITES, help="which suites; all unless given")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--all", action="store_true", help="run again what did not change, too")
    parser.add_argument(
        "--quick", action="store_true", help="run only what killed a mutant before and the tests of its module"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="processor time for a mutant and a suite, after which no part is begun (default 60)",
    )
    parser.add_argument(
        "--draw", type=int, metavar="COUNT", help="list so many mutants for an area, and run nothing"
    )
    parser.add_argument("--list", action="store_true", help="name the mutants, and run nothing")
    parser.add_argument(
        "--scenarios", action="store_true", help="find a mutant for each scenario that no verdict names"
    )
    options = parser.parse_args()
    if options.scenarios:
        return _search(options.jobs)
    if options.draw:
        return _draw(options.words, options.draw)
    mutants = _chosen(options.words)
    if not mutants:
        print(f"no mutant has {options.words} in its id, and the areas are {', '.join(AREAS)}", file=sys.stderr)
        return _UNUSABLE
    if options.list:
        print(*(f"{mutant.id}: {mutant}" for mutant in mutants), sep="\n")
        return 0
    return _run(mutants, options)


def _chosen(words: list[str]) -> list[Mutant]:
    return [
        mutant
        for mutant in listed()
        if not words or any(word == mutant.area or word in mutant.id for word in words)
    ]


def _search(jobs: int) -> int:
    """0, or 1 if a scenario notices none of the mutants that were tried."""
    found = dict(Witnesses.load().found)
    for scenario, mutant in search(jobs):
        print(f"{scenario}: {mutant or 'notices none'}", flush=True)
        found[scenario] = mutant
        Witnesses(found).save()
    return int(bool(Witnesses(found).quiet))


def _draw(areas: list[str], count: int) -> int:
    if not areas or not set(areas) <= set(AREAS):
        print(f"name areas to draw for: {', '.join(AREAS)}", file=sys.stderr)
        return _UNUSABLE
    for area in areas:
        write(area, drawn(area, count))
    return 0


def _run(mutants: list[Mutant], options: argparse.Namespace) -> int:
    results = Results.load()
    results.keep_only(listed())
    sound = []
    for mutant in mutants:
        reason = applies(mutant)
        if reason is not None:
            print(f"applies no more: {reason}")
        elif not mutant.equivalent:
            sound.append(mutant)
    plan = Plan(results, options.suite or SUITES, again=options.all, budget_s=options.budget, jobs=options.jobs)
    todo = plan.tasks(sound)
    print(f"{len(sound)} mutants, {len(todo)} times a suite to run", flush=True)
    _carry_out(plan, todo, options.jobs, quick=options.quick)
    plan.close()
    print(summary(listed(), Results.load()))
    alive = [
        m for m in sound if not m.survives and not any(v.killed for v in results.verdicts.get(m.id, {}).values())
    ]
    for mutant in alive:
        print(f"survives everything: {mutant.id}: {mutant}")
    return int(bool(alive))


def _carry_out(plan: Plan, tasks: list[Task], jobs: int, *, quick: bool) -> None:
    """Run tasks and print what comes of each; those that need a survey come last, or with ``quick`` not at all."""
    left, number = tasks, 0
    steps: list[Callable[[Mutant, str], str | None]] = [plan.try_likely, *([] if quick else [plan.carry_out])]
    for step in steps:
        with ThreadPoolExecutor(jobs) as pool:
            waiting = {pool.submit(step, *task): task for task in left}
            left = []
            try:
                for future in as_completed(waiting):
                    if (outcome := future.result()) is None:
                        left.append(waiting[future])
                        continue
                    number += 1
                    print(f"{number}/{len(tasks)} {outcome}", flush=True)
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise


if __name__ == "__main__":
    sys.exit(main())
