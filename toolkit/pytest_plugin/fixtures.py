"""The fixtures. Each starts what a test requests, and ends it after the test."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from toolkit.pytest_plugin.clusters import Clusters, SharedClusters
from toolkit.pytest_plugin.evidence import SHARED, TEMPORARY, Evidence, add_evidence
from toolkit.pytest_plugin.options import options_of
from toolkit.pytest_plugin.scenarios import Runs, Simulations
from toolkit.pytest_plugin.wire import Captures, Proxies

if TYPE_CHECKING:
    from toolkit.scenarios.runner import ScenarioRun


@pytest.fixture(scope="session")
def msgrlab_clusters_of_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clusters]:
    """All clusters of this process; the other fixtures use it."""
    worker, backend = os.environ.get("PYTEST_XDIST_WORKER", ""), options_of(request.config).cluster_backend
    clusters = Clusters(worker, backend)
    request.config.stash[TEMPORARY] = tmp_path_factory.getbasetemp()
    request.config.stash[SHARED] = clusters.shared
    yield clusters
    if problems := clusters.end_shared():
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def msgrlab_added(
    request: pytest.FixtureRequest, msgrlab_clusters_of_session: Clusters
) -> Callable[[Evidence], None]:
    """Returns a function that adds evidence to the test's report; the other fixtures use it."""
    del msgrlab_clusters_of_session  # requested because it sets the folder of kept files
    return partial(add_evidence, request.node)


@pytest.fixture
def msgrlab_cluster(
    msgrlab_clusters_of_session: Clusters, msgrlab_added: Callable[[Evidence], None]
) -> Iterator[Clusters]:
    """Starts clusters for a test: ``msgrlab_cluster("two-peers", backend="netns", check=True)``."""
    msgrlab_clusters_of_session.added = msgrlab_added
    yield msgrlab_clusters_of_session
    msgrlab_clusters_of_session.added = lambda _evidence: None
    if problems := msgrlab_clusters_of_session.end_own():
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture(scope="session")
def msgrlab_shared_cluster(msgrlab_clusters_of_session: Clusters) -> SharedClusters:
    """Starts clusters that tests share, for a fixture of your own: ``msgrlab_shared_cluster("two-peers")``.

    Tests that use your fixture run in one worker of ``pytest -n 4 --dist loadgroup``, so that there is one
    cluster.
    """
    return SharedClusters(msgrlab_clusters_of_session)


@pytest.fixture(scope="session")
def msgrlab_guest(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keeps the virtual machine of ``--msgrlab-backend vm`` between tests; the other fixtures use it."""
    if options_of(request.config).backend != "vm":
        yield
        return
    from toolkit.scenarios.guests import kept  # noqa: PLC0415 - only this backend needs it

    with kept():
        yield


@pytest.fixture
def msgrlab_run(
    request: pytest.FixtureRequest,
    msgrlab_guest: None,
    msgrlab_added: Callable[[Evidence], None],
) -> Runs:
    """Runs scenarios: ``msgrlab_run("reconnect", mode="secure")``; the test fails if a run does not pass."""
    del msgrlab_guest  # requested because runs use it
    return Runs(options_of(request.config), msgrlab_added)


@pytest.fixture
def msgrlab_scenario(request: pytest.FixtureRequest, msgrlab_run: Runs) -> "Callable[[], ScenarioRun]":
    """Runs a scenario of your project; a test that uses it is collected once for each case of each scenario."""
    return partial(msgrlab_run.job, request.param)


@pytest.fixture
def msgrlab_sim(
    request: pytest.FixtureRequest, msgrlab_added: Callable[[Evidence], None]
) -> Iterator[Simulations]:
    """Opens labs on virtual time.

    ``lab = msgrlab_sim("secure")`` opens a lab; ``msgrlab_sim.live(7)`` runs the random life of a seed.
    """
    with ExitStack() as labs:
        yield Simulations(options_of(request.config), msgrlab_added, labs)


@pytest.fixture
def msgrlab_proxy(msgrlab_added: Callable[[Evidence], None]) -> Iterator[Proxies]:
    """Opens fault proxies: ``msgrlab_proxy("10.1.2.3:3300", "<- SERVER_IDENT #1: cut").address``."""
    with ExitStack() as running:
        yield Proxies(msgrlab_added, running)


@pytest.fixture
def msgrlab_capture(
    msgrlab_added: Callable[[Evidence], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Captures]:
    """Takes captures: ``msgrlab_capture("lo", ports="3300").read().frames``."""
    with ExitStack() as running:
        yield Captures(msgrlab_added, running, tmp_path_factory.mktemp)
