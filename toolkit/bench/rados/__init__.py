"""Measures RADOS writes: our client beside Ceph's, and our embedded OSD beside Ceph's."""
