"""Summary of the verdicts: which tests notice which mutants, as tables in Markdown."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.mutations.listing import AREAS
from tests.mutations.mutant import Mutant
from tests.mutations.results import Results
from tests.mutations.running import ENOUGH, SUITES

_FEW = ENOUGH["catalogue"] - 1
"""A mutant that so many scenarios notice, or fewer, is named by each of them."""

Killed = Mapping[str, bool]
"""By suite that was run, whether it noticed the mutant."""


def killed(mutant: Mutant, results: Results) -> Killed:
    """The verdicts on a mutant whose function has not changed since."""
    verdicts = {suite: results.of(mutant, suite) for suite in SUITES}
    return {suite: verdict.killed for suite, verdict in verdicts.items() if verdict is not None}


def summary(mutants: Sequence[Mutant], results: Results) -> str:
    """Return the share of mutants that each suite notices of those that it was run on, by area and in total."""
    rows = ["| area | mutants | " + " | ".join(SUITES) + " | together |", "|---" * (len(SUITES) + 3) + "|"]
    for area in (*AREAS, ""):
        own = [mutant for mutant in mutants if area in {"", mutant.area} and not mutant.equivalent]
        verdicts = [killed(mutant, results) for mutant in own]
        cells = [_cell(own, suite, results) for suite in SUITES]
        together = _share([any(one.values()) for one in verdicts if one])
        rows.append(f"| {area or 'all'} | {len(own)} | " + " | ".join([*cells, together]) + " |")
    return "\n".join(rows)


def _cell(mutants: Iterable[Mutant], suite: str, results: Results) -> str:
    verdicts = [verdict for mutant in mutants if (verdict := results.of(mutant, suite)) is not None]
    cell = _share([verdict.killed for verdict in verdicts if verdict.reached])
    missed = sum(not verdict.reached for verdict in verdicts)
    return f"{cell}, {missed} not reached" if missed else cell


def _share(noticed: list[bool]) -> str:
    if not noticed:
        return "-"
    return f"{sum(noticed)} of {len(noticed)} ({100 * sum(noticed) // len(noticed)} %)"


def few_killers(mutants: Iterable[Mutant], results: Results) -> dict[str, list[Mutant]]:
    """Return, for each scenario, the mutants that are noticed by it alone or by two others at most."""
    found: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        verdict = results.of(mutant, "catalogue")
        if verdict is not None and verdict.deep and len(verdict.killers) <= _FEW:
            for scenario in verdict.killers:
                found[scenario.partition(" ")[0]].append(mutant)
    return dict(sorted(found.items()))


def page(mutants: Sequence[Mutant], results: Results, quiet: Sequence[str]) -> str:
    """The whole page.

    Args:
        mutants: those that are listed.
        results: the verdicts on them.
        quiet: the scenarios that notice none of them.
    """
    parts = [_HEAD, summary(mutants, results), ""]
    rare = few_killers(mutants, results)
    parts.append("## Scenarios, and the mutants that at most two others notice\n")
    parts += [f"- {scenario}: {', '.join(_code(one) for one in own)}" for scenario, own in rare.items()]
    if not rare:
        parts.append("None.")
    parts.append("\n## Scenarios that notice none of the mutants\n")
    parts.append(", ".join(quiet) or "None.")
    for title, chosen in (
        ("Mutants that no suite noticed", _survivors(mutants, results)),
        (
            "Equivalent mutants, which change no behaviour",
            [(one, one.equivalent) for one in mutants if one.equivalent],
        ),
    ):
        parts.append(f"\n## {title}\n")
        parts += [f"- {_code(one)}: {_change(one)}{': ' + why if why else ''}" for one, why in chosen] or ["None."]
    return "\n".join(parts) + "\n"


def _survivors(mutants: Iterable[Mutant], results: Results) -> list[tuple[Mutant, str]]:
    found = []
    for mutant in mutants:
        verdicts = killed(mutant, results)
        if verdicts and not mutant.equivalent and not any(verdicts.values()):
            found.append((mutant, mutant.survives or _ran(mutant, results)))
    return found


def _ran(mutant: Mutant, results: Results) -> str:
    """Return what has been run on a survivor, and what has not."""
    words: dict[str, list[str]] = defaultdict(list)
    for suite in SUITES:
        verdict = results.of(mutant, suite)
        if verdict is None:
            words["not run"].append(suite)
        elif not verdict.reached:
            words["not reached"].append(suite)
        else:
            words["all of" if verdict.deep else "some of"].append(suite)
    order = ("all of", "some of", "not reached", "not run")
    names = {"all of": "survives", "some of": "survives what was run of", "not reached": "not reached by"}
    return "; ".join(f"{names.get(word, word)} {', '.join(words[word])}" for word in order if word in words)


def _code(mutant: Mutant) -> str:
    return f"`{mutant.id}`"


def _change(mutant: Mutant) -> str:
    return f"`{mutant.before}` becomes `{mutant.after}`".replace("|", "\\|")


_HEAD = """# Mutants: which mistakes the tests notice

Written by `python docs/mutants.py` from the verdicts in `tests/mutations/results.json`. A mutant is the
messenger with one line that is deliberately wrong. This page shows which test suites notice which mutants. A
mutant that no suite notices is a mistake that no test would find.

`make mutants` runs each suite by itself against each mutant: the unit tests of the messenger, the catalogue on
the simulator (at most six cases of a scenario), 400 random runs of the simulator, and small explorations. What
killed a mutant before and the unit tests of its module are run first. If they do not kill it, all tests,
scenarios, runs and scopes are run that reach the mutated line, by a probe in front of it. A line that no part of
a suite reaches is "not reached" and counted apart; "-" means that the suite was not run.
With `python -m tests.mutations --quick`, only what comes first is run: mutants that it does not kill get no
verdict, so the shares are too high.

One failing unit test, scope or random run is enough for a verdict; a unit test must fail twice. Of the
catalogue, four scenarios are enough, so a mutant that more scenarios notice is listed with none below. For the
scenarios that no verdict names, `python -m tests.mutations --scenarios` tries mutants until each has noticed one.

The mutants are drawn by rule from the source, at most two for a function. `tests/mutations/listed` lists them by
area. `make mutants AREA=v2 SUITE=simulator` runs some of them; unchanged ones are not run again.
[Testing](testing.md#mutants) describes how long this takes.
"""
