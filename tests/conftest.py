"""What every test shares: capabilities a test needs, strict mode, hypothesis profiles, real monitors.

With ``MSGRLAB_STRICT=1`` a skip is a failure, except for a capability that this machine cannot have.
"""

import functools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from tests.support.watchdog import Watchdog
from toolkit.cluster.daemons import Auth, Mode
from toolkit.cluster.monitor import RealMonitor
from toolkit.cluster.real import RealCluster
from toolkit.doctor.capability import Finding
from toolkit.doctor.catalogue import find

STRICT_SEED = 20060701
"""Strict runs are all the same, since a gate should not depend on luck; others look elsewhere every time."""

_unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # workers share the cores
settings.register_profile("quick", max_examples=50, **_unhurried)
settings.register_profile("strict", max_examples=100, database=None, print_blob=True, **_unhurried)


class CannotBeHad(pytest.skip.Exception):
    """A skip for want of something that this machine cannot have."""


def require(name: str) -> None:
    """Skip the test, with the doctor's words, unless the machine has this capability."""
    finding = _examined(name)
    if finding.available:
        return
    if finding.remedy is None:
        raise CannotBeHad(f"{name}: {finding.detail}")
    pytest.skip(f"{name}: {finding.detail}; to add it: {finding.remedy}")


@functools.cache
def _examined(name: str) -> Finding:
    return find(name).examine()


@pytest.fixture(scope="session")
def real_monitor() -> Iterator[Callable[[Mode], RealMonitor]]:
    """Real monitors by mode, started when first asked for and kept; every xdist worker has its own."""
    for name in ("ceph-mon", "ceph-authtool", "ceph"):
        require(name)
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
    for name in ("ceph-mon", "ceph-osd", "ceph-authtool", "ceph"):
        require(name)
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            require(name)


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
    if _strict() and not isinstance(call.excinfo.value, CannotBeHad):
        path, line, reason = report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {reason}\nA skip is a failure with MSGRLAB_STRICT=1."


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("ended_after_s", "seconds after which a test that outlived its timeout is ended", default="420")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads the seed
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watchdog(float(config.getini("ended_after_s"))))
    settings.load_profile("strict" if _strict() else "quick")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = STRICT_SEED if _strict() else random.getrandbits(32)


def pytest_report_header(config: pytest.Config) -> list[str]:
    strict = ["strict: a skip is a failure"] if _strict() else []
    return [*strict, f"to repeat this run: --hypothesis-seed={config.option.hypothesis_seed}"]


def _strict() -> bool:
    return os.environ.get("MSGRLAB_STRICT", "0") not in ("", "0")
