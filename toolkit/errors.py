"""Errors of the toolkit beside those of the messenger."""

from messenger.errors import LocalError


class Unsupported(LocalError):
    """What was asked for makes sense, but cannot be had here; the text says what can."""
