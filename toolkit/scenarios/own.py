"""A user's own scenarios: the decorator that makes one from a function, and the line of an error in it.

::

    from toolkit import Lab, scenario

    @scenario(cases={"briefly": {"frozen_s": 1.0}, "for an hour": {"frozen_s": 3600.0}}, processes=True)
    def frozen_server(lab: Lab, frozen_s: float) -> None:
        '''A server that was frozen delivers every message once.'''
        lab.two("lossless_client", "stateful_server", "client.1", "mds.0")
        ...

The decorated function can still be called, by other scenarios for example.
"""

import inspect
import site
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, overload

from messenger.errors import LocalError
from toolkit.lab.ways import ALL_WAYS, Way
from toolkit.scenarios.scenario import BACKENDS, OF_LABS, Scenario, Script, described

OWN = "own"
"""Family of users' own scenarios."""
_ATTRIBUTE = "__msgrlab_scenario__"
_LIBRARIES = tuple(
    f"{Path(path).resolve()}/"
    for path in {
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        str(Path(__file__).parents[1]),
        str(Path(sys.modules[LocalError.__module__].__file__ or "").parent),
    }
)
"""Folders of code that is not the user's: the standard library, installed packages and this project."""


@overload
def scenario(script: Script) -> Script: ...


@overload
def scenario(
    *,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    v1_cases: Mapping[str, Mapping[str, Any]] | None = None,
    sim_cases: Mapping[str, str] | None = None,
    ways: Sequence[str] = (),
    backends: Sequence[str] = BACKENDS,
    **options: Any,  # noqa: ANN401 - fields of Scenario
) -> Callable[[Script], Script]: ...


def scenario(
    script: Script | None = None,
    *,
    cases: Mapping[str, Mapping[str, Any]] | None = None,
    v1_cases: Mapping[str, Mapping[str, Any]] | None = None,
    sim_cases: Mapping[str, str] | None = None,
    ways: Sequence[str] = (),
    backends: Sequence[str] = BACKENDS,
    **options: Any,
) -> Script | Callable[[Script], Script]:
    """Make a function a scenario: ``msgrlab run FILE::NAME``, :func:`toolkit.run` and pytest run it.

    The first line of its docstring is its title, the rest its description.

    Args:
        script: called with a :class:`toolkit.Lab`, and with the parameters of a case by name.
        cases: parameters by the name of the case; a single case without parameters unless given.
        v1_cases: the cases on msgr v1, if they differ.
        sim_cases: cases that run in simulation only, with the reason of each.
        ways: names of the ways in which it runs, such as ``v2-secure``; all ways unless given.
        backends: backends on which it runs: ``sim``, ``local``, ``netns``, ``docker``, and ``rdma`` if not on
            ``local``.
        options: ``only``, ``provokes``, ``rules``, ``processes``, ``quick``, ``default_cuts`` and ``v1_cuts`` of
            :class:`toolkit.scenarios.scenario.Scenario`.

    Raises:
        LocalError: an argument is wrong, or does not fit the function; the text has file and line.
    """
    about = {"cases": cases, "v1_cases": v1_cases, "sim_cases": sim_cases, "backends": tuple(backends), **options}
    wanted = partial(_decorate, ways=ways, about=about)
    return wanted if script is None else wanted(script)


def scenario_of(script: object) -> Scenario | None:
    """The scenario of a decorated function; None for any other object."""
    found = getattr(script, _ATTRIBUTE, None)
    return found if isinstance(found, Scenario) else None


def _decorate(script: Script, ways: Sequence[str], about: dict[str, Any]) -> Script:
    if not inspect.isfunction(script):
        raise LocalError(f"@scenario decorates a function, not {script!r}")
    place = f"{shown_path(script.__code__.co_filename)}:{script.__code__.co_firstlineno}"
    try:
        made = _made(script, ways, about)
    except (LocalError, TypeError) as error:
        raise LocalError(f"{place}: scenario {script.__name__}: {error}") from None
    setattr(script, _ATTRIBUTE, made)
    return script


def _made(script: Script, ways: Sequence[str], about: dict[str, Any]) -> Scenario:
    code = inspect.unwrap(script).__code__
    known = tuple(map(Way.parse, ways)) or ALL_WAYS
    if inspect.iscoroutinefunction(script):
        raise LocalError("a scenario is a plain function: verbs of its lab wait by themselves")
    for backend in about["backends"]:
        if backend not in OF_LABS:
            raise LocalError(f"unknown backend {backend!r}; known: {', '.join(OF_LABS)}")
    elsewhere = [backend for backend in BACKENDS if backend not in about["backends"]]
    if elsewhere and not about.get("only"):
        about = {**about, "only": "its file names other backends"}
    in_file = Path(code.co_filename).is_file() and script.__qualname__ == script.__name__
    made = described(
        script,
        f"{shown_path(code.co_filename)}::{script.__name__}" if in_file else script.__name__,
        script.__name__,
        OWN,
        ways=known,
        file=code.co_filename,
        line=code.co_firstlineno,
        **about,
    )
    _check_parameters(made)
    return made if made.title else replace(made, title=script.__name__.replace("_", " "))


def _check_parameters(made: Scenario) -> None:
    """Raise LocalError for a case whose parameters do not fit the function, before anything runs."""
    signature = inspect.signature(made.script)
    for case in made.cases:
        cuts = {"cuts": ()} if made.default_cuts else {}
        try:
            signature.bind(None, **case.params, **cuts)
        except TypeError as error:
            case_name = f" of case {case.name!r}" if case.name else ""
            raise LocalError(f"it takes {signature}, a lab and the parameters{case_name}: {error}") from None


def shown_path(path: str | Path) -> str:
    """A path as a user would type it: relative if the file lies below the current directory."""
    whole = Path(path).resolve()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole)


def place_of(error: BaseException, made: Scenario | None = None) -> str:
    """``FILE:LINE: `` of the user's code, or of the scenario's file, in which an exception arose; empty if none.

    Args:
        error: the exception.
        made: the scenario that was running.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}:{error.lineno}: "
    last = ""
    for frame, line in walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if (made is not None and name == made.file) or _is_theirs(name):
            last = f"{shown_path(name)}:{line}: "
    return last


def _is_theirs(name: str) -> bool:
    return not name.startswith("<") and not str(Path(name).resolve()).startswith(_LIBRARIES)
