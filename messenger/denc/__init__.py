"""Encodings shared by every part of the protocol (docs/protocol.md §1, §2)."""
