"""MF: malformed frames."""

from toolkit.scenarios.families.mf import messages, payloads, preambles, streams, tags
from toolkit.scenarios.families.mf.family import MF

__all__ = ["MF", "messages", "payloads", "preambles", "streams", "tags"]
