"""The pytest plugin: clusters, scenarios, the simulator, proxies and captures as fixtures.

::

    def test_messages_arrive(msgrlab_cluster):
        cluster = msgrlab_cluster("two-peers", check=True)
        cluster.nodes["a"].command("send", peer="b", count=3)

Everything that a test starts is ended after the test. If the test fails, its report shows the last events and
frames, and the history, logs and captures are kept. docs/testing.md describes the plugin.
"""

from toolkit.pytest_plugin.clusters import Clusters, SharedClusters
from toolkit.pytest_plugin.collection import (
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_pycollect_makeitem,
)
from toolkit.pytest_plugin.differences import pytest_assertrepr_compare
from toolkit.pytest_plugin.fixtures import (
    msgrlab_added,
    msgrlab_capture,
    msgrlab_cluster,
    msgrlab_clusters_of_session,
    msgrlab_guest,
    msgrlab_proxy,
    msgrlab_run,
    msgrlab_scenario,
    msgrlab_shared_cluster,
    msgrlab_sim,
)
from toolkit.pytest_plugin.needs import pytest_runtest_setup
from toolkit.pytest_plugin.options import (
    pytest_addoption,
    pytest_configure,
    pytest_configure_node,
    pytest_report_header,
)
from toolkit.pytest_plugin.reports import pytest_runtest_call, pytest_runtest_makereport
from toolkit.pytest_plugin.scenarios import Runs, Simulations
from toolkit.pytest_plugin.wire import Captures, Proxies

__all__ = [
    "Captures",
    "Clusters",
    "Proxies",
    "Runs",
    "SharedClusters",
    "Simulations",
    "msgrlab_added",
    "msgrlab_capture",
    "msgrlab_cluster",
    "msgrlab_clusters_of_session",
    "msgrlab_guest",
    "msgrlab_proxy",
    "msgrlab_run",
    "msgrlab_scenario",
    "msgrlab_shared_cluster",
    "msgrlab_sim",
    "pytest_addoption",
    "pytest_assertrepr_compare",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_generate_tests",
    "pytest_pycollect_makeitem",
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
]
