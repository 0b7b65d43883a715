"""Replays captures: our messenger takes the place of one side of each recorded session."""

from toolkit.replay.capture_replay import Replayed, ReplayResult, Role, replay_capture
from toolkit.replay.compare import Comparison, Difference
from toolkit.replay.saved import SavedSession
from toolkit.replay.scenario_writer import NOTHING_PASSED, Saved

__all__ = [
    "NOTHING_PASSED",
    "Comparison",
    "Difference",
    "ReplayResult",
    "Replayed",
    "Role",
    "Saved",
    "SavedSession",
    "replay_capture",
]
