"""Typed payloads of messages (protocol.md §6)."""
