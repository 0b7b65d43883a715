"""A real cluster with a file system, which tests of several packages share."""

import pytest

needs_mds = pytest.mark.needs("ceph-mds", "ceph-osd", "ceph-mon", "ceph")
in_fs_group = pytest.mark.xdist_group("ceph_fs")
"""Puts a test into the worker that has the cluster."""
FS_SPEC = """
speaks: {mode: secure}
nodes:
  mon: {ceph: mon}
  osd: {ceph: osd}
  mds:
    ceph: mds
    options: {mds_defer_session_stale: false}   # else stale once somebody waits for capabilities
"""
