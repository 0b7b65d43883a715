"""Sharded IO as crimson has it: handshakes on one shard, data phases on others (docs/protocol.md §4.12)."""
