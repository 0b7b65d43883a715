"""Clusters with real daemons, started when first asked for and shared by all tests of a session."""

import functools
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from toolkit.cluster.cluster import Cluster
from toolkit.cluster.own import up
from toolkit.cluster.spec import ClusterSpec


def ceph_spec(release: str = "host", osds: int = 2, **changes: Any) -> ClusterSpec:
    """A monitor, OSDs, and a client of ours."""
    nodes = {"mon": {"ceph": "mon"}, "osd": {"ceph": "osd", "count": osds}, "app": {"rados": "client.app"}}
    values = {"name": "real", "nodes": nodes, "ceph": {"release": release}, **changes}
    return ClusterSpec.model_validate(values)


@pytest.fixture(scope="session")
def ceph_cluster() -> Iterator[Callable[..., Cluster]]:
    """Such clusters by backend, release and mode; a test that disturbs one leaves it healthy."""
    with ExitStack() as running:

        @functools.cache
        def cluster_of(backend: str = "process", release: str = "host", mode: str = "crc") -> Cluster:
            spec = ceph_spec(release, speaks={"protocol": "v1+v2", "mode": mode})
            return running.enter_context(up(spec, backend=backend, name=f"t{uuid.uuid4().hex[:12]}"))

        yield cluster_of
