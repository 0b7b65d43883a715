"""All scenarios, those of a user's project included; only the modules of requested ones are imported."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

from messenger.errors import LocalError
from toolkit.scenarios.files import is_path, project_file, project_scenarios, scenarios_in
from toolkit.scenarios.index import FOLDERS, INDEX
from toolkit.scenarios.own import OWN, scenario_of
from toolkit.scenarios.scenario import Family, Scenario, Script


def _load(module: str) -> None:
    """Import a module of scenarios, which adds them to their families."""
    import_module(f"toolkit.scenarios.{module}")


def _family(folder: str, family: str) -> Family:
    package = import_module(f"toolkit.scenarios.{folder}")
    found = getattr(package, family)
    assert isinstance(found, Family)
    return found


class Catalogue(Mapping[str, Scenario]):
    """The scenarios by their ids, in the order of the index; a scenario is imported when it is looked up."""

    def __getitem__(self, scenario_id: str) -> Scenario:
        entry = INDEX[scenario_id]
        _load(entry.module)
        scenarios = _family(entry.folder, entry.family).scenarios
        return next(scenario for scenario in scenarios if scenario.id == scenario_id)

    def __iter__(self) -> Iterator[str]:
        return iter(INDEX)

    def __len__(self) -> int:
        return len(INDEX)

    def of(self, ids: Iterable[str]) -> list[Scenario]:
        """The scenarios with these ids."""
        return [self[scenario_id] for scenario_id in ids]


CATALOGUE = Catalogue()


def families() -> dict[str, Family]:
    """The families by their ids, with all their scenarios in the order of the index."""
    return {family: _whole(family) for family in FOLDERS}


def _whole(family: str) -> Family:
    places = {scenario_id: place for place, scenario_id in enumerate(INDEX)}
    for entry in INDEX.values():
        if entry.family == family:
            _load(entry.module)
    found = _family(FOLDERS[family], family)
    found.scenarios.sort(key=lambda scenario: places[scenario.id])
    return found


def find(text: str) -> Scenario:
    """Find a scenario by its id or name; ``HS-03[HELLO READ]`` is that one case of it.

    A user's own scenario is ``FILE::NAME``, or the name alone if the project of the current directory contains its
    file (:mod:`toolkit.scenarios.files`).

    Raises:
        LocalError: there is no such scenario or case; the text names similar scenarios, or the cases.
    """
    wanted, _, case = text.partition("[")
    found = _own(wanted) if is_path(wanted.partition("::")[0]) else _by_name(wanted)
    if not case:
        return found
    case = case.removesuffix("]")
    cases = tuple(known for known in found.cases if known.name == case)
    if not cases:
        raise LocalError(
            f"{found.id} has no case {case!r}; known: {', '.join(known.name for known in found.cases)}"
        )
    return replace(found, cases=cases)


def wanted(scenario: str | Scenario | Script) -> Scenario:
    """The scenario of a word (as :func:`find` takes it) or of a function with ``@scenario``.

    Raises:
        LocalError: there is no such scenario.
    """
    if isinstance(scenario, str):
        return find(scenario)
    found = scenario if isinstance(scenario, Scenario) else scenario_of(scenario)
    if found is None:
        raise LocalError(f"{scenario!r} is no scenario: decorate it with @scenario (from toolkit import scenario)")
    return found


def _own(text: str) -> Scenario:
    """Find the scenario ``FILE::NAME``."""
    path, _, name = text.partition("::")
    there = scenarios_in(Path(path))
    for scenario in there:
        if scenario.name == name:
            return scenario
    if not name and len(there) == 1:
        return there[0]
    names = ", ".join(scenario.name for scenario in there)
    raise LocalError(
        f"{path} has no scenario {name!r}; it has {names}" if name else f"{path}: name one of {names}"
    )


def _by_name(wanted: str) -> Scenario:
    ids = {entry.name: scenario_id for scenario_id, entry in INDEX.items()}
    scenario_id = wanted if wanted in INDEX else ids.get(wanted)
    if scenario_id is not None:
        return CATALOGUE[scenario_id]
    own = project_scenarios()
    named = [scenario for scenario in own if scenario.name == wanted]
    if len(named) > 1:
        raise LocalError(f"{wanted} is in several files: {', '.join(scenario.id for scenario in named)}")
    if not named:
        raise LocalError(_unknown(wanted, own))
    return named[0]


def _unknown(wanted: str, own: list[Scenario]) -> str:
    names = {entry.name: scenario_id for scenario_id, entry in INDEX.items()}
    near = get_close_matches(wanted, {*INDEX, *names, *(scenario.name for scenario in own)}, n=3)
    hint = f"near it: {', '.join(near)}" if near else "families (HS), patterns (HS-0*) and all work as well"
    return f"no scenario {wanted!r}; {hint}; `msgrlab list` names them"


def select(text: str) -> list[Scenario]:
    """Select scenarios by a family's id (``HS``), a pattern (``HS-0*``), ``all``, or as :func:`find` does.

    ``own`` selects those of the project of the current directory, which ``all`` includes; a file or a folder
    selects those in it.

    Raises:
        LocalError: as :func:`find`, or nothing matches the pattern.
    """
    if text == "all":
        return [*CATALOGUE.of(INDEX), *project_scenarios()]
    if text in FOLDERS:
        return CATALOGUE.of(scenario_id for scenario_id, entry in INDEX.items() if entry.family == text)
    if text == OWN:
        return _own_of_project()
    if is_path(text) and "::" not in text:
        return scenarios_in(Path(text))
    if not is_path(text) and ("*" in text or "?" in text):
        fitting = [
            scenario_id
            for scenario_id, entry in INDEX.items()
            if fnmatchcase(scenario_id, text) or fnmatchcase(entry.name, text)
        ]
        own = [scenario for scenario in project_scenarios() if fnmatchcase(scenario.name, text)]
        if fitting or own:
            return [*CATALOGUE.of(fitting), *own]
    return [find(text)]


def _own_of_project() -> list[Scenario]:
    if found := project_scenarios():
        return found
    raise LocalError(
        f"no scenarios of your own: name a file of them, or in {project_file() or 'pyproject.toml'} "
        '[tool.msgrlab] scenarios = ["FILE or FOLDER"]'
    )
