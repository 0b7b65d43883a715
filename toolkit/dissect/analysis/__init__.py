"""What a capture tells beyond its frames: sessions over their links, what became of each message, times."""

from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.limits import Limits
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.messages import Sent, Transmission
from toolkit.dissect.analysis.sessions import Party, SessionView

__all__ = ["Analysis", "Limits", "LinkView", "Party", "Sent", "SessionView", "Transmission"]
