"""The nemesis of a cluster: faults at certain moments, scripted or drawn, and a verdict (docs/faults.md)."""

from toolkit.faults.nemesis.drawing import Crowd, draw
from toolkit.faults.nemesis.nemesis import Nemesis, Verdict, torment
from toolkit.faults.nemesis.timeline import Step, Timeline

__all__ = ["Crowd", "Nemesis", "Step", "Timeline", "Verdict", "draw", "torment"]
