"""Writes docs/checks.md, a table of every check over histories, from toolkit/checks/invariants.py.

Run ``python docs/checks.py`` after a check has changed.
"""

from inspect import getdoc
from pathlib import Path

from docs.citations import linked
from toolkit.checks.invariants import GROUPS, INVARIANTS
from toolkit.checks.result import Invariant

HEAD = """# Checks

Written by `python docs/checks.py`. These checks apply to every history (`toolkit/checks/history.py` describes the
format), whether it comes from a simulation, a live run or a capture: `check(history)` runs all of them,
`check(history, only=["INV-8", "no_plaintext"])` some, by number or by name. Where a history lacks records that a
check needs, the check skips that part and says so in its note.

Tests prove that each check can fail: `tests/toolkit/checks/damage` lists more than a hundred kinds of damage to a
recorded history, each with the check that must detect it every time, or with the reason why none can.
"""
TITLES = {
    "ordering": "Order and delivery",
    "session": "Sessions",
    "security": "Security",
    "resources": "Resources, liveness and streams",
}


def rules(invariant: Invariant) -> str:
    """Return the text of an invariant, from the docstrings of its rules."""
    texts = []
    for judge in invariant.judges:
        if judge.__name__ in INVARIANTS and len(invariant.judges) > 1 and judge.__name__ != invariant.name:
            texts.append(f"`{judge.__name__}`.")
            continue
        text = " ".join((getdoc(judge) or "").split())
        head, colon, rest = text.partition(": ")
        own = head in {invariant.id, invariant.name}
        named = "_" in rest.split(" ", 1)[0]  # keep the name of a check in lower case
        texts.append((rest if named else rest[:1].upper() + rest[1:]) if own and colon else text)
    return " ".join(texts).replace("``", "`").replace("|", "\\|")


def row(invariant: Invariant) -> str:
    """Return the line of an invariant in the table."""
    number = "" if invariant.id == invariant.name else invariant.id
    return f"| {number} | `{invariant.name}` | {rules(invariant)} |"


def page() -> str:
    """Return the whole page."""
    blocks = []
    for group in GROUPS:
        rows = [row(invariant) for invariant in INVARIANTS.values() if invariant.group == group]
        blocks.append(
            f"\n## {TITLES[group]}\n\n| number | name | rule |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return linked(HEAD + "".join(blocks))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
