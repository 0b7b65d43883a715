"""Writes docs/checks.md, a table of every check over histories, from toolkit/checks/invariants.py.

Run ``python docs/checks.py`` after a check has changed.
"""

from inspect import getdoc
from pathlib import Path

from docs.citations import linked
from toolkit.checks.invariants import GROUPS, INVARIANTS
from toolkit.checks.result import Invariant

HEAD = """# Checks: the invariants of a run

Written by `python docs/checks.py`. This page lists every rule by which msgrlab judges a run: no message is lost or
delivered twice, events come in their order, sessions converge, and others. Look here when a report names an
invariant such as `INV-8`.

The rules apply to a history of records (`toolkit/checks/history.py` defines its format), whether it comes from a
simulation, from real processes or from a capture. `check(history)` checks all of them, and
`check(history, only=["INV-8", "no_plaintext"])` some, by number or by name. If a history does not contain what a
check needs, the check is not judged, and its note has the reason.

The checks themselves are tested: `tests/toolkit/checks/damage` damages recorded histories in more than a hundred
ways. Each kind of damage names the check that must detect it every time, or the reason why none can.
"""
TITLES = {
    "ordering": "Order and delivery",
    "session": "Sessions",
    "security": "Security",
    "resources": "Resources, liveness and streams",
}


def rules(invariant: Invariant) -> str:
    """What an invariant says, from the docstrings of its rules."""
    texts = []
    for judge in invariant.judges:
        if judge.__name__ in INVARIANTS and len(invariant.judges) > 1 and judge.__name__ != invariant.name:
            texts.append(f"`{judge.__name__}`.")
            continue
        text = " ".join((getdoc(judge) or "").split())
        head, colon, rest = text.partition(": ")
        own = head in {invariant.id, invariant.name}
        named = "_" in rest.split(" ", 1)[0]  # a number's own name stays as it is
        texts.append((rest if named else rest[:1].upper() + rest[1:]) if own and colon else text)
    return " ".join(texts).replace("``", "`").replace("|", "\\|")


def row(invariant: Invariant) -> str:
    """An invariant's line of the table."""
    number = "" if invariant.id == invariant.name else invariant.id
    return f"| {number} | `{invariant.name}` | {rules(invariant)} |"


def page() -> str:
    """The whole page."""
    blocks = []
    for group in GROUPS:
        rows = [row(invariant) for invariant in INVARIANTS.values() if invariant.group == group]
        blocks.append(
            f"\n## {TITLES[group]}\n\n| number | name | rule |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return linked(HEAD + "".join(blocks))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
