"""Writes index.py, which has the module of each scenario.

Run ``python -m toolkit.scenarios.index_writer`` after a scenario was added, renamed or moved.
"""

import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import toolkit.scenarios
from toolkit.scenarios.index import FOLDERS, INDEX
from toolkit.scenarios.scenario import Family, Scenario

_NUMBER = re.compile("[A-Z0-9]+-([0-9]+)")
_MARK = "\nINDEX: "


def _row(scenario: Scenario) -> tuple[int, int, str]:
    """Return the sort key of a scenario: its number in its family; equal numbers keep the order of the index."""
    numbered = _NUMBER.match(scenario.id)
    known = list(INDEX).index(scenario.id) if scenario.id in INDEX else len(INDEX)
    return (int(numbered[1]) if numbered else 0, known, scenario.id)


def found_families() -> dict[str, Family]:
    """Return the families by id, with the scenarios of all modules below ``toolkit/scenarios``."""
    prefix = f"{toolkit.scenarios.__name__}."
    for module in walk_packages(toolkit.scenarios.__path__, prefix):
        import_module(module.name)
    return {family: getattr(import_module(f"{prefix}{folder}"), family) for family, folder in FOLDERS.items()}


def index() -> str:
    """Return the source of the index, a line for each scenario.

    Raises:
        ValueError: a scenario is not in the folder of its family, or two have the same id.
    """
    lines: dict[str, str] = {}
    for family in found_families().values():
        for scenario in sorted(family.scenarios, key=_row):
            module = scenario.module.removeprefix(f"{toolkit.scenarios.__name__}.")
            folder, _, name = module.partition(".")
            if folder != FOLDERS[family.id]:
                raise ValueError(f"{scenario.id} is in {module}, its family in {FOLDERS[family.id]}")
            if scenario.id in lines:
                raise ValueError(f"two scenarios have the id {scenario.id}")
            lines[scenario.id] = f'    "{scenario.id}": Entry("{family.id}", "{scenario.name}", "{name}"),\n'
    return f"INDEX: Mapping[str, Entry] = {{\n{''.join(lines.values())}}}\n"


def page() -> str:
    """Return the source of the whole file."""
    before, _, _ = _file().read_text(encoding="utf-8").partition(_MARK)
    return f"{before}\n{index()}"


def _file() -> Path:
    return Path(__file__).with_name("index.py")


if __name__ == "__main__":
    _file().write_text(page(), encoding="utf-8")
