"""Fixtures of the tests."""

import pytest

from toolkit.cluster import Cluster
from toolkit.pytest_plugin import SharedClusters


@pytest.fixture(scope="session")
def pair(msgrlab_shared_cluster: SharedClusters) -> Cluster:
    """Two peers; tests that use this fixture share one cluster, and run in one worker of ``--dist loadgroup``."""
    return msgrlab_shared_cluster("two-peers", check=True)
