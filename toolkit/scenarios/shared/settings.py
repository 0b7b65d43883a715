"""Cases for disputed rules: one for each setting."""

from typing import Any

from messenger.rules import SETTINGS


def settings(rule: str) -> dict[str, dict[str, Any]]:
    """A case for every setting of a rule, the default first; the script takes it as ``rule``."""
    return {setting: {"rule": setting} for setting in SETTINGS[rule]}
