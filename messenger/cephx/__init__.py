"""Authentication: cephx and none (protocol.md §5)."""
