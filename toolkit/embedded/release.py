"""The version that embedded daemons report, and the capacity of an OSD."""

VERSION = "ceph version 16.2.15 (msgrlab embedded) pacific (stable)"
"""Version string of the Ceph release whose encodings and commands the embedded daemons follow."""
CAPACITY_BYTES = 1 << 30
"""Capacity of an OSD, the same as the default of ``memstore_device_bytes``."""
