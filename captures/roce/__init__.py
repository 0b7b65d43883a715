"""Captures of two messengers over soft-RoCE devices, made in a micro-VM (captures/README.md)."""
