"""Every scenario there is."""

import re
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from messenger.errors import LocalError
from toolkit.scenarios.families import FAMILIES
from toolkit.scenarios.scenario import Family, Scenario

_NUMBER = re.compile("[A-Z0-9]+-([0-9]+)")


def _place(scenario: Scenario) -> int:
    """Rows of a family stand in the order of their numbers, wherever they were written down."""
    numbered = _NUMBER.match(scenario.id)
    return int(numbered[1]) if numbered else 0


for _family in FAMILIES:
    _family.scenarios.sort(key=_place)
CATALOGUE: dict[str, Scenario] = {scenario.id: scenario for family in FAMILIES for scenario in family.scenarios}
assert len(CATALOGUE) == sum(len(family.scenarios) for family in FAMILIES), "two scenarios have one id"


def families() -> dict[str, Family]:
    """The families by their ids."""
    return {family.id: family for family in FAMILIES}


def find(text: str) -> Scenario:
    """The scenario of that id, or of that name; ``HS-03[HELLO READ]`` is the one case alone.

    Raises:
        LocalError: there is none, or no such case; says what comes near, or which cases there are.
    """
    wanted, _, case = text.partition("[")
    found = CATALOGUE.get(wanted) or next((s for s in CATALOGUE.values() if s.name == wanted), None)
    if found is None:
        raise LocalError(_unknown(wanted))
    if not case:
        return found
    case = case.removesuffix("]")
    cases = tuple(known for known in found.cases if known.name == case)
    if not cases:
        raise LocalError(
            f"{found.id} has no case {case!r}; known: {', '.join(known.name for known in found.cases)}"
        )
    return replace(found, cases=cases)


def _unknown(wanted: str) -> str:
    names = {scenario.name: scenario.id for scenario in CATALOGUE.values()}
    near = get_close_matches(wanted, [*CATALOGUE, *names], n=3)
    hint = f"near it: {', '.join(near)}" if near else "families (HS), patterns (HS-0*) and all work as well"
    return f"no scenario {wanted!r}; {hint}; `msgrlab list` names them"


def select(text: str) -> list[Scenario]:
    """The scenarios of a family's id (``HS``), of a pattern (``HS-0*``), ``all``, or what :func:`find` finds.

    Raises:
        LocalError: see there; nothing fits the pattern.
    """
    if text == "all":
        return list(CATALOGUE.values())
    family = families().get(text)
    if family is not None:
        return list(family.scenarios)
    if "*" in text or "?" in text:
        fitting = [s for s in CATALOGUE.values() if fnmatchcase(s.id, text) or fnmatchcase(s.name, text)]
        if fitting:
            return fitting
    return [find(text)]
