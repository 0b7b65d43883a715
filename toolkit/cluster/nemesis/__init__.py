"""The nemesis of a cluster: faults at given or random times, and a verdict (docs/faults.md)."""

from toolkit.cluster.nemesis.chaos import Crowd, draw
from toolkit.cluster.nemesis.nemesis import Nemesis, Verdict, torment
from toolkit.cluster.nemesis.timeline import Timeline, TimelineStep

__all__ = ["Crowd", "Nemesis", "Timeline", "TimelineStep", "Verdict", "draw", "torment"]
