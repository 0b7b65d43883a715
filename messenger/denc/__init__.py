"""Encodings shared by every part of the protocol (protocol.md §1, §2)."""
