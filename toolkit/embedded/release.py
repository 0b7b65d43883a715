"""The version that embedded daemons report, and the capacity of an OSD."""

VERSION = "ceph version 16.2.15 (msgrlab embedded) pacific (stable)"
"""Version string of the Ceph release whose encodings and commands the embedded daemons follow."""
VERSION_VALUE = {"version": VERSION.split()[2], "release": "pacific", "release_type": "stable"}
"""The answer to ``ceph tell DAEMON version``."""
CAPACITY_BYTES = 1 << 30
"""Capacity of an OSD, the same as the default of ``memstore_device_bytes``."""
