"""Sharded IO as in crimson: handshakes on one shard, data phases on others (docs/protocol.md §4.12)."""
