"""All kinds of damage."""

from tests.toolkit.checks.damage import links, messages, sessions, wire
from tests.toolkit.checks.damage.damage import DAMAGES

__all__ = ["DAMAGES", "links", "messages", "sessions", "wire"]
