"""The catalogue: scenarios on the simulator, each judged by what it expects and by the invariants."""

import inspect
from collections.abc import Iterator, Sequence
from hashlib import sha256

from tests.mutations.suites.clock import TooLong, at_most_s
from toolkit.lab.ways import Way, ways
from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.runner import run_scenario
from toolkit.scenarios.scenario import Case, Scenario

WAYS = ways("v2-crc", "v1", "v2-secure", "v2-compressed", "v2-crc-w2", "v1-w2", "v2-secure-aes256k", "v1-aes256k")
"""Those that a mutant may need, the usual ones first."""
_FEW_CASES = 6
_CASE_LIMIT_S = 60.0


def parts() -> dict[str, str]:
    """``ID WAY`` for every scenario that runs on the simulator."""
    return {
        f"{scenario.id} {way.name}": digest
        for scenario in CATALOGUE.values()
        if "sim" in scenario.backends and scenario.quick
        for digest in [_digest(scenario)]
        for way in WAYS
        if way in scenario.ways and scenario.cases_in(way, "sim")
    }


def _digest(scenario: Scenario) -> str:
    """Of the module that has the script, and of the cases; verbs that scripts share are not in it."""
    module = inspect.getmodule(scenario.script)
    assert module is not None
    cases = [(case.name, sorted(case.params)) for case in scenario.cases]
    return sha256(f"{inspect.getsource(module)}{cases}".encode()).hexdigest()[:8]


def play(chosen: Sequence[str], *, deep: bool) -> Iterator[tuple[str, str]]:
    """Run scenarios, some of their cases or with ``deep`` all; a scenario stops at the first case that fails."""
    for part in chosen:
        name, _, way = part.partition(" ")
        yield part, ""
        for case in _cases(CATALOGUE[name], Way.parse(way), deep=deep):
            what = _failure(CATALOGUE[name], Way.parse(way), case)
            if what:
                yield part, f"{case.name}: {what}" if case.name else what
                break


def _cases(scenario: Scenario, way: Way, *, deep: bool) -> list[Case]:
    cases = list(scenario.cases_in(way, "sim"))
    step = 1 if deep else -(-len(cases) // _FEW_CASES)
    return cases[::step]


def _failure(scenario: Scenario, way: Way, case: Case) -> str:
    try:
        with at_most_s(_CASE_LIMIT_S):
            run = run_scenario(scenario, "sim", way, case=case)
    except (TooLong, MemoryError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if run.passed else run.complaints[0]
