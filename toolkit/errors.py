"""Errors of the toolkit beside those of the messenger."""

from messenger.errors import LocalError, MsgrError


class Unsupported(LocalError):
    """The request is valid, but this machine, backend or protocol lacks what it needs; the text says what."""


class ScenarioFailed(MsgrError):
    """An expectation of a scenario was not met; the text says what happened instead."""
