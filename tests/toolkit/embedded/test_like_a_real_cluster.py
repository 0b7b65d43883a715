"""Embedded daemons behave as real ones: the tests of the RADOS client, run against both."""

import functools
from collections.abc import Callable

import pytest

from tests.support.embedded import StandIn
from tests.toolkit.rados.test_live import (  # noqa: F401 - the tests
    test_a_removed_object_ends_its_watches,
    test_a_watched_object_notifies,
    test_answers_of_the_monitors,
    test_attributes_and_omap,
    test_ceph_and_the_client_read_each_others_objects,
    test_checksums_of_data,
    test_closed_client_fails_all_requests,
    test_commands_for_osds,
    test_connections_use_the_given_mode_and_protocol,
    test_data,
    test_locator_keys_place_objects_together,
    test_methods_of_classes,
    test_refused_client_gets_an_error,
    test_several_operations_are_done_all_or_none,
    test_tickets_are_renewed_during_requests,
    test_watchers_without_acknowledgement_are_reported,
    used_protocol,
)
from toolkit.cluster import Cluster

pytestmark = [pytest.mark.needs("ceph"), pytest.mark.xdist_group("embedded")]


@pytest.fixture
def real_cluster(msgrlab_cluster: Callable[..., Cluster]) -> Callable[..., StandIn]:
    """Embedded clusters by mode and authentication; the same ones for all tests."""

    @functools.cache
    def cluster_of(_osds: int = 1, mode: str = "crc", auth: str = "cephx") -> StandIn:
        settings = [f"speaks.mode={mode}", f"speaks.auth={auth}"]
        return StandIn(msgrlab_cluster("embedded", settings=settings, shared=True))

    return cluster_of
