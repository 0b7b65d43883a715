"""Writes docs/mutants.md, the mutants that each suite detects, from the verdicts in tests/mutations/results.json.

Run ``python docs/mutants.py`` after ``make mutants``.
"""

from pathlib import Path

from tests.mutations.listing import listed
from tests.mutations.page import page
from tests.mutations.results import Results
from tests.mutations.witnesses import Witnesses, reasons

if __name__ == "__main__":
    why = reasons()
    quiet = {scenario: why.get(scenario, "no reason is given") for scenario in Witnesses.load().quiet}
    Path(__file__).with_suffix(".md").write_text(page(list(listed()), Results.load(), quiet), encoding="utf-8")
