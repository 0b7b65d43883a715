"""The catalogue: scenarios on the simulator, each judged by what it expects and by the invariants."""

import inspect
from collections.abc import Iterable

from tests.mutations.code import digest_of
from tests.mutations.suites import Watch
from tests.mutations.suites.clock import TooLong, at_most_s
from toolkit.lab.ways import Way, ways
from toolkit.scenarios.catalogue import CATALOGUE
from toolkit.scenarios.runner import run_scenario
from toolkit.scenarios.scenario import Case, Scenario

WAYS = ways("v2-crc", "v1", "v2-secure", "v2-compressed", "v2-crc-w2", "v1-w2", "v2-secure-aes256k", "v1-aes256k")
"""Those that a mutant may need, the usual ones first."""
_FEW_CASES = 6
_CASE_LIMIT_S = 20.0


def parts() -> list[str]:
    """``ID WAY`` for every scenario that runs on the simulator; way by way."""
    return [
        f"{scenario.id} {way.name}"
        for way in WAYS
        for scenario in CATALOGUE.values()
        if "sim" in scenario.backends and scenario.quick
        if way in scenario.ways and scenario.cases_in(way, "sim")
    ]


def digest(part: str) -> str:
    """Return the digest of the script's module and the cases, without the verbs that scripts share."""
    scenario = CATALOGUE[part.partition(" ")[0]]
    module = inspect.getmodule(scenario.script)
    assert module is not None
    cases = [(case.name, sorted(case.params)) for case in scenario.cases]
    return digest_of([inspect.getsource(module), repr(cases)])


def play(chosen: Iterable[str], watch: Watch) -> None:
    """Run scenarios, some of their cases; a scenario stops at the first case that fails."""
    for part in chosen:
        if not watch.begin(part):
            return
        name, _, way = part.partition(" ")
        for case in _cases(CATALOGUE[name], Way.parse(way)):
            what = _failure(CATALOGUE[name], Way.parse(way), case)
            if what:
                watch.notice(part, f"{case.name}: {what}" if case.name else what)
                break


def _cases(scenario: Scenario, way: Way) -> list[Case]:
    cases = list(scenario.cases_in(way, "sim"))
    return cases[:: -(-len(cases) // _FEW_CASES)]


def _failure(scenario: Scenario, way: Way, case: Case) -> str:
    try:
        with at_most_s(_CASE_LIMIT_S):
            run = run_scenario(scenario, "sim", way, case=case)
    except (TooLong, MemoryError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if run.passed else run.complaints[0]
