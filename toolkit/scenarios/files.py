"""A user's files of scenarios, and the project that they belong to.

A project names its files of scenarios, or folders with them, in ``pyproject.toml``::

    [tool.msgrlab]
    scenarios = ["scenarios", "more/links.py"]
"""

import ast
import os
import sys
from functools import cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from messenger.compat import override
from messenger.errors import LocalError
from messenger.files import read_text
from toolkit.errors import Unsupported
from toolkit.scenarios.own import place_of, scenario_of, shown_path
from toolkit.scenarios.scenario import Scenario

_PROJECT = "pyproject.toml"
_TABLE = "tool.msgrlab"
_MOST_BYTES = 1 << 20


def is_path(text: str) -> bool:
    """True if a word names a file of scenarios or a folder with such files, not a scenario."""
    return text.endswith(".py") or "/" in text


def scenarios_in(path: Path) -> list[Scenario]:
    """The scenarios of a file, in the order of its lines, or of all files of a folder.

    Raises:
        LocalError: there is no such file, it cannot be imported, or has no scenarios; the text has file and line.
    """
    if path.is_dir():
        found = [scenario for file in sorted(path.glob("*.py")) for scenario in _in_file(file)]
    elif path.is_file():
        found = _in_file(path)
    else:
        raise LocalError(f"{path}: there is no such file")
    if not found:
        raise LocalError(
            f"{path}: no scenarios in it; functions with @scenario (from toolkit import scenario) are"
        )
    return found


def project_file(start: Path | None = None) -> Path | None:
    """The pyproject.toml of the current directory (or of ``start``), or of the nearest directory above it."""
    first = (start or Path.cwd()).resolve()
    return next((each / _PROJECT for each in (first, *first.parents) if (each / _PROJECT).is_file()), None)


def project_scenarios(start: Path | None = None) -> list[Scenario]:
    """The scenarios of the project of the current directory (or of ``start``); none without a project.

    Raises:
        LocalError: its pyproject.toml, or a file that it names, is wrong.
    """
    project = project_file(start)
    if project is None:
        return []
    return [one for path in _named(project) for one in scenarios_in(path)]


def _named(project: Path) -> list[Path]:
    """The files and folders that a project names."""
    import tomllib  # noqa: PLC0415 - few runs read a project

    text = read_text(project, _MOST_BYTES, "project file")
    try:
        table = tomllib.loads(text).get("tool", {}).get("msgrlab", {})
    except tomllib.TOMLDecodeError as error:
        raise LocalError(f"{shown_path(project)}: {error}") from None
    names = table.get("scenarios", []) if isinstance(table, dict) else table
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LocalError(f'{shown_path(project)}: {_TABLE}: give scenarios = ["FILE or FOLDER", ...]')
    if names and project.stat().st_uid not in {0, os.geteuid()}:
        raise LocalError(f"{project}: another user owns it, and its scenarios would run as you; copy the project")
    return [project.parent / name for name in names]


def _in_file(path: Path) -> list[Scenario]:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise LocalError(f"{shown_path(path)}: {error.strerror}") from None
    return list(_scenarios(path.resolve(), source))


@cache
def _scenarios(path: Path, source: bytes) -> tuple[Scenario, ...]:
    """The scenarios of a file with this source."""
    module = _imported(path)
    found = [scenario for scenario in map(scenario_of, vars(module).values()) if scenario]
    here = {scenario.name: scenario for scenario in found if scenario.file == str(path)}
    first: dict[str, int] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in here:
            if node.name in first:
                place = f"{shown_path(path)}:{node.lineno}"
                raise LocalError(f"{place}: {node.name} is defined in line {first[node.name]} already; rename one")
            first[node.name] = node.lineno
    return tuple(here.values())


class _Loader(SourceFileLoader):
    """Compiles the source anew: cached bytecode may be stale if a file changed within a second."""

    @override
    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _imported(path: Path) -> ModuleType:
    """Import a file as a module of the same name in every process; it can import modules beside it."""
    name = f"msgrlab_own_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    if spec is None or spec.loader is None:
        raise LocalError(f"{shown_path(path)}: not a Python file")
    module = module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Unsupported:
        raise
    except LocalError as error:  # raised by @scenario, with the line
        raise LocalError(str(error)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's file may raise anything
        del sys.modules[name]
        place = place_of(error) or f"{shown_path(path)}: "
        words = error.msg if isinstance(error, SyntaxError) else f"{type(error).__name__}: {error}"
        raise LocalError(f"{place}{words}") from None
    return module
