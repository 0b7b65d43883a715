"""What embedded daemons say they are, and how much an OSD takes."""

VERSION = "ceph version 16.2.15 (msgrlab embedded) pacific (stable)"
"""The release whose forms and commands they follow."""
CAPACITY_BYTES = 1 << 30
"""What an OSD takes in all; ``memstore_device_bytes`` of Ceph's own memory store has the same default."""
