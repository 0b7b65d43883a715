"""Errors of the toolkit beside those of the messenger."""

from messenger.errors import LocalError, MsgrError


class Unsupported(LocalError):
    """What was asked for makes sense, but cannot be had here; the text says what can."""


class ScenarioFailed(MsgrError):
    """What a scenario expected did not happen; the text says what did."""
