"""Analysis of a capture beyond its frames: sessions over their links, the fate of each message, times."""

from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.messages import Party, Sent, Transmission
from toolkit.dissect.analysis.sessions import SessionView

__all__ = ["Analysis", "Limits", "LinkView", "Party", "Sent", "SessionView", "Transmission"]
