"""The version that embedded daemons report, and the capacity of an OSD."""

VERSION = "ceph version 16.2.15 (msgrlab embedded) pacific (stable)"
"""Ceph release whose encodings and commands they follow."""
CAPACITY_BYTES = 1 << 30
"""Capacity of an OSD, the same as the default of ``memstore_device_bytes``."""
