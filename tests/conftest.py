"""Shared by all tests: strict mode, hypothesis profiles, real monitors; the plugin has the marker ``needs``.

With ``MSGRLAB_STRICT=1`` a skip is a failure, except for a capability that this machine cannot have.
"""

import functools
import gc
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from tests.support.guests import fast_guest, guest, guests
from tests.support.needs import CannotBeAdded, NotRun, require
from tests.support.watchdog import Watchdog
from toolkit.cluster.daemons import Auth, Mode
from toolkit.cluster.monitor import RealMonitor
from toolkit.cluster.real import RealCluster

__all__ = ["fast_guest", "guest", "guests"]  # fixtures

STRICT_SEED = 20060701
"""Strict runs are all the same, since a gate should not depend on luck; others look elsewhere every time."""

LONGEST_ID, SHORTENED_ID = 80, 30
"""Characters of a text in the name of a test: at most, and of its beginning if it is longer."""

EXIT_STATUS = "msgrlab/exit_status"
"""Key of pytest's cache."""

YOUNG_OBJECTS = 5000
"""New objects after which Python looks for garbage; its usual 700 costs a tenth of the time of simulations."""

_unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # workers share the cores
settings.register_profile("brief", max_examples=15, **_unhurried)
settings.register_profile("quick", max_examples=50, **_unhurried)
settings.register_profile("strict", max_examples=50, database=None, print_blob=True, **_unhurried)


@pytest.fixture(scope="session")
def real_monitor() -> Iterator[Callable[[Mode], RealMonitor]]:
    """Real monitors by mode, started when first asked for and kept; every xdist worker has its own."""
    require("ceph-mon", "ceph-authtool", "ceph")
    with ExitStack() as running:

        @functools.cache
        def of_mode(mode: Mode) -> RealMonitor:
            return running.enter_context(RealMonitor(mode))

        yield of_mode


@pytest.fixture(scope="session")
def real_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., RealCluster]]:
    """Real clusters by number of OSDs, mode and authentication, started when first asked for and kept.

    Logs are kept beside pytest's other temporary files when a test of the session has failed.
    """
    require("ceph-mon", "ceph-osd", "ceph-authtool", "ceph")
    with ExitStack() as running:

        @functools.cache
        def cluster_of(osds: int = 1, mode: Mode = "crc", auth: Auth = "cephx") -> RealCluster:
            # ask for pauses while placement groups peer, as OSDs do by themselves in worse times
            options = {"osd_backoff_on_peering": "true"}
            cluster = running.enter_context(RealCluster(osds, mode, auth=auth, options=options))
            logs = f"cluster-{osds}-{mode}-{auth}".replace(" ", "-")
            running.callback(_save_logs_after_failure, request.session, cluster, tmp_path_factory, logs)
            return cluster

        yield cluster_of


def _save_logs_after_failure(
    session: pytest.Session, cluster: RealCluster, directories: pytest.TempPathFactory, name: str
) -> None:
    if session.testsfailed:
        cluster.save_logs(directories.mktemp(name))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _judge_skip(report, call)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    if report.skipped:
        _judge_skip(report, report.call)
    return report


def _judge_skip(report: pytest.TestReport | pytest.CollectReport, call: pytest.CallInfo) -> None:
    NotRun.note(report, call.excinfo.value)
    if _strict() and not isinstance(call.excinfo.value, CannotBeAdded):
        path, line, reason = report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {reason}\nA skip is a failure with MSGRLAB_STRICT=1."


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning and its length; pytest would put all of it into the name of the test."""
    if not isinstance(val, str | bytes) or len(val) <= LONGEST_ID:
        return None
    beginning = val[:SHORTENED_ID].decode("latin-1") if isinstance(val, bytes) else val[:SHORTENED_ID]
    return f"{beginning.encode('unicode_escape').decode()}..{len(val)}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ended_after_s", "seconds after which a test that outlived its timeout is ended", default="420")
    parser.addoption(
        "--parameter-sets",
        type=int,
        metavar="N",
        help="run at most N parameter sets of each test function, spread over all of them",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Do not look for garbage meanwhile: collection makes a million objects that stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep --parameter-sets of each function: enough where only Python, the libraries or the machine differ."""
    most = config.getoption("--parameter-sets")
    if most is None:
        return
    if most < 1:
        raise pytest.UsageError(f"--parameter-sets takes a number from 1 on, not {most}")
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for group in functions.values() for item in _spread(group, most)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _spread(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Return at most this many items at equal distances, the first one included."""
    return items if len(items) <= most else [items[index * len(items) // most] for index in range(most)]


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads the seed
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watchdog(float(config.getini("ended_after_s"))))
    config.pluginmanager.register(NotRun())
    settings.load_profile("strict" if _strict() else "quick")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = STRICT_SEED if _strict() else random.getrandbits(32)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how the run ended: `.ci/again` repeats nothing of one that did not get to its end."""
    if not hasattr(session.config, "workerinput") and (cache := getattr(session.config, "cache", None)):
        cache.set(EXIT_STATUS, int(exitstatus))


def pytest_report_header(config: pytest.Config) -> list[str]:
    strict = ["strict: a skip is a failure"] if _strict() else []
    return [*strict, f"to repeat this run: --hypothesis-seed={config.option.hypothesis_seed}"]


def _strict() -> bool:
    return os.environ.get("MSGRLAB_STRICT", "0") not in ("", "0")
