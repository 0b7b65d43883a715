"""The Ceph messenger in Python."""
