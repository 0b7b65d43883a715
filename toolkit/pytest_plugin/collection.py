"""Collects scenarios as tests, and groups tests that share a cluster."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from messenger.errors import LocalError
from toolkit.pytest_plugin.evidence import SHARED_FIXTURE
from toolkit.pytest_plugin.options import Options, options_of

if TYPE_CHECKING:
    from toolkit.lab.ways import Way
    from toolkit.pytest_plugin.scenarios import Runs
    from toolkit.scenarios.batch import Job
    from toolkit.scenarios.scenario import Scenario

_FIXTURE = "msgrlab_scenario"
_DECORATED = "__msgrlab_scenario__"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with ``msgrlab_scenario`` once for each case of each scenario."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("scenarios") or pytest.mark.scenarios().mark
    try:
        jobs = _jobs(marker.args or ("own",), options_of(metafunc.config), **marker.kwargs)
    except (LocalError, TypeError) as error:
        pytest.fail(f"scenarios of {metafunc.definition.name}: {error}", pytrace=False)
    metafunc.parametrize(_FIXTURE, jobs, ids=list(map(_name, jobs)), indirect=True)


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Function] | None:
    """Collect a function with ``@scenario`` in a test module as one test for each of its cases."""
    made = getattr(obj, _DECORATED, None) if callable(obj) else None
    if made is None or getattr(obj, "__module__", "") != getattr(collector.obj, "__name__", ""):
        return None
    return [
        pytest.Function.from_parent(collector, name=f"{name}[{_name(job)}]", callobj=_test(job), originalname=name)
        for job in _jobs([made], options_of(collector.config))
    ]


def _test(job: "Job") -> "Callable[[Runs], None]":
    def test(msgrlab_run: "Runs") -> None:
        __tracebackhide__ = True
        msgrlab_run.job(job)

    return test


def _jobs(
    words: "Sequence[str | Scenario]",
    options: Options,
    *,
    ways: str | Iterable[str] = (),
    backends: Iterable[str] = (),
    seeds: Iterable[int] = (),
) -> "list[Job]":
    """Return a run for each scenario, case, way, backend and seed, except on backends that a scenario excludes."""
    from toolkit.scenarios.batch import jobs  # noqa: PLC0415 - only tests with scenarios need it
    from toolkit.scenarios.catalogue import select  # noqa: PLC0415
    from toolkit.scenarios.scenario import OF_RUNS  # noqa: PLC0415

    wanted = [one for word in words for one in (select(word) if isinstance(word, str) else [word])]
    places = tuple(backends) or (options.scenario_backend,)
    if unknown := set(places) - set(OF_RUNS):
        raise LocalError(f"unknown backend {', '.join(sorted(unknown))}; known: {', '.join(OF_RUNS)}")
    return [
        job
        for backend in places
        for seed in tuple(seeds) or (options.seed,)
        for job in jobs([one for one in wanted if one.runs_on(backend)], backend, _ways(ways), seed)
    ]


def _ways(names: str | Iterable[str]) -> "Sequence[Way] | None":
    from toolkit.lab.ways import ALL_WAYS, Way  # noqa: PLC0415 - as above

    if names == "all":
        return ALL_WAYS
    return [Way.parse(name) for name in ([names] if isinstance(names, str) else names)] or None


def _name(job: "Job") -> str:
    """Return the part of a test's name in brackets, the same in every run."""
    case = f"-{job.case.name}" if job.case.name else ""
    return f"{job.scenario.name}{case}-{job.backend}-{job.way.name}-{job.seed}"


# ---- sharing


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests that share a cluster into one group, so that ``--dist loadgroup`` runs them in one worker."""
    if not config.pluginmanager.has_plugin("xdist"):
        return
    for item in items:
        if (name := _shares(item)) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(name))


def _shares(item: Any) -> str:  # noqa: ANN401 - only functions have fixtures
    """Return the name of the fixture whose cluster a test shares with others; empty if there is none."""
    if SHARED_FIXTURE not in getattr(item, "fixturenames", ()):
        return ""
    known = item._fixtureinfo.name2fixturedefs  # noqa: SLF001 - pytest has no public access to it
    users = [name for name, found in known.items() if SHARED_FIXTURE in found[-1].argnames]
    return str(users[0]) if users else SHARED_FIXTURE
