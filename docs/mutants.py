"""Writes docs/mutants.md, the mutants that each suite detects, from the verdicts in tests/mutations/results.json.

Run ``python docs/mutants.py`` after ``make mutants``.
"""

from pathlib import Path

from tests.mutations.listing import listed
from tests.mutations.page import page
from tests.mutations.results import Results
from tests.mutations.witnesses import Witnesses

if __name__ == "__main__":
    quiet = Witnesses.load().quiet
    Path(__file__).with_suffix(".md").write_text(page(list(listed()), Results.load(), quiet), encoding="utf-8")
