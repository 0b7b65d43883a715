"""The index of scenarios: complete, and what makes running one scenario cheap."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.machine.interpreters import environment
from toolkit.scenarios import index_writer
from toolkit.scenarios.catalogue import CATALOGUE, families
from toolkit.scenarios.index import FOLDERS, INDEX
from toolkit.scenarios.scenario import Family

HERE = Path(__file__).parents[3] / "toolkit" / "scenarios"
REPLAYED = "interoperation.known_differences"
"""The one module that imports other families: it shows their rows between nodes of other implementations."""


_USED = re.compile(r"^ *(?:from|import) toolkit\.scenarios\.(\w+)", re.MULTILINE)


def _imported(code: str) -> set[str]:
    """The families whose modules a new Python has imported after some code, each with its files."""
    code += "\nimport json, sys; print(json.dumps([m for m in sys.modules if m.startswith('toolkit.scenarios.')]))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    modules = {name.removeprefix("toolkit.scenarios.") for name in json.loads(done.stdout.splitlines()[-1])}
    return {name for name in modules if name.partition(".")[0] in FOLDERS.values() and "." in name}


def test_index_file_is_current() -> None:
    written = (HERE / "index.py").read_text(encoding="utf-8")
    assert index_writer.page() == written, "run python -m toolkit.scenarios.index_writer"


def test_every_folder_of_scenarios_is_a_family() -> None:
    folders = {path.parent.name for path in HERE.glob("*/__init__.py")}
    assert folders - {"crimson", "shared"} == set(FOLDERS.values())


def test_index_gives_the_place_of_each_scenario() -> None:
    for scenario_id, entry in INDEX.items():
        scenario = CATALOGUE[scenario_id]
        assert (scenario.id, scenario.name, scenario.family) == (scenario_id, entry.name, entry.family)
        assert scenario.module == f"toolkit.scenarios.{entry.module}"


def test_families_list_their_scenarios_in_the_order_of_the_index() -> None:
    listed = [scenario.id for family in families().values() for scenario in family.scenarios]
    assert listed == list(INDEX)


@pytest.mark.parametrize("scenario_id", ["reconnect", "HS-01", "LP-17", "MF-03", "SQ-01", "GRID-01"])
def test_running_one_scenario_imports_one_module(scenario_id: str) -> None:
    imported = _imported(f"import toolkit; assert toolkit.run({scenario_id!r}).passed")
    assert imported == {INDEX[scenario_id].module} | _helpers(imported, INDEX[scenario_id].folder)


def _helpers(imported: set[str], folder: str) -> set[str]:
    """Modules of a family's folder that have no scenarios."""
    with_scenarios = {entry.module for entry in INDEX.values()}
    return {name for name in imported - with_scenarios if name.startswith(f"{folder}.")}


def test_a_family_imports_no_other_family() -> None:
    assert [
        (module, other)
        for path in HERE.glob("*/*.py")
        for other in _USED.findall(path.read_text(encoding="utf-8"))
        if other in FOLDERS.values()
        and other != path.parent.name
        and (module := f"{path.parent.name}.{path.stem}") != REPLAYED
    ] == []


def test_a_scenario_in_the_folder_of_another_family_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stray = Family("KA", "Keepalive")
    stray.scenarios += families()["HS"].scenarios
    monkeypatch.setattr(index_writer, "found_families", lambda: {"KA": stray})
    with pytest.raises(ValueError, match=r"HS-01 is in handshake\.terms, its family in keepalive"):
        index_writer.index()


def test_two_scenarios_with_one_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = Family("KA", "Keepalive")
    twice.scenarios += families()["KA"].scenarios * 2
    monkeypatch.setattr(index_writer, "found_families", lambda: {"KA": twice})
    with pytest.raises(ValueError, match="two scenarios have the id KA-01"):
        index_writer.index()
