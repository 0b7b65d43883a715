"""Replaying captures: our messenger in the place of one side of each recorded session."""

from toolkit.replay.compare import Comparison, Difference
from toolkit.replay.replaying import Replayed, ReplayResult, Role, replay_capture

__all__ = ["Comparison", "Difference", "ReplayResult", "Replayed", "Role", "replay_capture"]
