"""The mutants that are listed, and what is kept of the runs on them."""

from itertools import islice
from pathlib import Path

import pytest

from tests.mutations.code import ROOT, digest_of, digest_of_file, imports_of
from tests.mutations.jobs import Job, Process
from tests.mutations.listing import AREAS, applies, listed
from tests.mutations.mutant import Mutant
from tests.mutations.page import few_killers, killed, page, summary
from tests.mutations.results import Results
from tests.mutations.running import Plan, mirrors
from tests.mutations.survey import Part, Survey
from tests.mutations.witnesses import Witnesses
from toolkit.scenarios.catalogue import CATALOGUE

MOST_OBSOLETE = 20
"""The source moves on: so many may not apply before new ones must be drawn."""


def test_mutants_are_many_and_have_unique_ids() -> None:
    mutants = listed()
    assert len(mutants) >= 150
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    assert {mutant.area for mutant in mutants} == set(AREAS)


def test_mutants_apply_to_the_source_and_compile() -> None:
    obsolete = []
    for mutant in listed():
        reason = applies(mutant)
        if reason is None:
            compile(mutant.mutated(), str(mutant.path), "exec")
        else:
            obsolete.append(reason)
    assert len(obsolete) <= MOST_OBSOLETE, "draw new ones: python -m tests.mutations AREA --draw COUNT"


def test_no_scenario_that_was_tried_misses_all_mutants() -> None:
    witnesses = Witnesses.load()
    assert witnesses.quiet == []
    assert witnesses.found.keys() <= CATALOGUE.keys()


FORGETS = Mutant(
    "session", "session.queue:OutQueue.requeue_sent", "self.requeued.extendleft(reversed(self.sent))", "pass"
)
"""What was not acknowledged is not sent again."""
PARTS = {
    "units": "tests/messenger/session/test_queue.py",
    "catalogue": "LC-01 v2-crc",
    "simulator": "seed 202",
    "exploration": "v2 lossless_client 1+1 messages, 1 faults (break+refuse), by frame",
}


@pytest.mark.parametrize("suite", PARTS)
def test_each_suite_detects_a_mutant_and_reports_nothing_without_one(suite: str) -> None:
    process = Process(suite)

    def noticed(mutant: Mutant | None, *, at_import: bool = False) -> list[str]:
        job = Job(mutant, (PARTS[suite],), at_import)
        return [line["what"] for line in process.lines_of(job) if line["what"]]

    assert noticed(FORGETS)
    assert noticed(FORGETS, at_import=True), "in a process that imports the messenger with the mistake"
    assert noticed(None) == [], "the mistakes before were those of forks"
    process.close()


def some(count: int) -> list[Mutant]:
    return list(islice((mutant for mutant in listed() if applies(mutant) is None), count))


def test_the_table_counts_verdicts(tmp_path: Path) -> None:
    one, two, three = some(3)
    results = Results()
    results.put(one, "units", {"file": "1"}, ["file::test"], deep=True)
    results.put(one, "catalogue", {"AU-01 v1": "1"}, ["AU-01"], deep=True)
    results.put(two, "units", {"file": "1"}, [], deep=True)
    results.save(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert killed(one, again) == {"units": True, "catalogue": True}
    assert killed(three, again) == {}
    last = summary([one, two, three], again).splitlines()[-1]
    assert last == "| all | 3 | 1 of 2 (50 %) | 1 of 1 (100 %) | - | - | 1 of 2 (50 %) |"
    assert few_killers([one, two], again) == {"AU-01": [one]}
    assert two.id in page([one, two, three], again, []).partition("no suite noticed")[2]


def test_unreached_lines_are_counted_apart(tmp_path: Path) -> None:
    one, two = some(2)
    results = Results()
    results.put(one, "catalogue", {"AU-01": "1"}, ["AU-01"], deep=True)
    results.put(two, "catalogue", {"AU-01": "1"}, [], deep=True, reached=False)
    results.save(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert "| 1 of 1 (100 %), 1 not reached |" in summary([one, two], again)
    assert "not reached by catalogue; not run units" in page([one, two], again, [])


def test_a_mutant_is_run_against_sound_parts_that_reach_it() -> None:
    inside = FORGETS
    outside = Mutant("core", "prioritized:", "1", "2")
    survey = Survey(
        {
            name: Part(name, 1.0, wrong, frozenset(reached))
            for name, wrong, reached in (
                ("reaches", [], {inside.id}),
                ("fails anyway", ["wrong"], {inside.id}),
                ("reaches neither", [], set[str]()),
            )
        },
        frozenset(),
    )
    assert [part.name for part in survey.reaching(inside)] == ["reaches"]
    assert [part.name for part in survey.reaching(outside)] == ["reaches", "reaches neither"], (
        "anything may use it"
    )


def test_results_name_only_the_changed_parts() -> None:
    (one,) = some(1)
    results = Results()
    results.put(one, "units", {"first": "1", "second": "1"}, [], deep=True)
    verdict = results.of(one, "units")
    assert verdict is not None
    assert results.changed(verdict, {"first": "1", "second": "2", "third": "1"}) == {"second", "third"}
    verdict.code = "another"
    assert results.of(one, "units") is None


def test_previous_killer_of_a_mutant_is_run_first_and_alone() -> None:
    results = Results()
    killer = "tests/messenger/session/test_queue.py::test_requeueing_twice_keeps_the_order"
    results.put(FORGETS, "units", {}, [killer], deep=True)
    plan = Plan(results, ["units"], again=False, budget_s=60.0, jobs=1)
    assert plan.tasks([FORGETS]) == [(FORGETS, "units")], "the file of its killer is another"
    outcome = plan.try_likely(FORGETS, "units", save=False)
    plan.close()
    assert outcome == f"units: {FORGETS.id}: killed by {killer}"
    assert plan.tasks([FORGETS]) == []


def test_a_survey_is_valid_until_something_changes_that_a_part_uses(tmp_path: Path) -> None:
    used, other = tmp_path / "used.py", tmp_path / "other.py"
    used.write_text("x = 1")
    other.write_text("y = 1")
    before = digest_of_file(used), digest_of_file(other)
    digest_of_file.cache_clear()
    used.write_text("x = 2")
    assert digest_of_file(used) != before[0]
    assert digest_of_file(other) == before[1]
    script = Path(__file__)
    assert ROOT / "tests" / "mutations" / "code.py" in imports_of(script)
    assert ROOT / "tests" / "mutations" / "importing.py" in imports_of(script), "imported by what it imports"
    assert not any("messenger" in path.parts for path in imports_of(script)), "surveys record what of it is used"


def test_tests_of_the_mutated_module_come_first() -> None:
    names = ["tests/messenger/session/test_queue.py", "tests/messenger/test_queue_of_another.py"]
    assert [name for name in names if mirrors(name, FORGETS)] == names[:1]


def test_digest_ignores_comments_and_docstrings_but_no_code() -> None:
    plain = digest_of(["    def f(x):\n        return x\n"])
    assert digest_of(['def f(x):\n    """Return x."""\n    # why\n    return x\n']) == plain
    assert digest_of(["def f(x):\n    return -x\n"]) != plain
    assert digest_of(["[no python]\nx ="]) != digest_of(["[no python]\nx  ="])
