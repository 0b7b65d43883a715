"""Sharded IO as crimson has it: handshakes on one shard, data phases on others (protocol.md §4.12)."""
