"""The links of an analysis as lanes of a chart, grouped by session."""

from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.direction import Direction
from toolkit.report.lanes import ChartLane, LaneChart
from toolkit.report.text import duration

_NANO = 1e9


def timeline(analysis: Analysis, session: int | None = None) -> LaneChart:
    """Chart when each link was open, and how much traffic it carried each way.

    Args:
        analysis: analysis of a capture.
        session: number of the session whose links are shown; None shows all links, also those without a session.

    Raises:
        LocalError: there is no such session.
    """
    chosen = analysis.sessions if session is None else [analysis.session(session)]
    lanes = [
        _lane(analysis, link, f"session {view.index} · {view.title}") for view in chosen for link in view.links
    ]
    if session is None:
        lanes += [_lane(analysis, link, "no session") for link in analysis.links if not analysis.has_session(link)]
    return LaneChart(lanes, analysis.began_ns or 0, analysis.ended_ns)


def _lane(analysis: Analysis, link: LinkView, group: str) -> ChartLane:
    spent = duration((link.ended_ns - link.began_ns) / _NANO)
    tip = [
        f"stream {link.stream.index}: {link.stream.client} to {link.stream.server}",
        f"{link.protocol} {link.mode}, handshake ended with {link.outcome or 'nothing'}",
        f"{link.frames} frames, {link.messages} of them messages, within {spent}",
    ]
    return ChartLane(
        f"stream {link.stream.index} {link.protocol} {link.mode}",
        group,
        link.began_ns,
        link.ended_ns,
        link.ready_ns,
        analysis.volume(link, Direction.TO_SERVER),
        analysis.volume(link, Direction.TO_CLIENT),
        "\n".join(tip),
    )
