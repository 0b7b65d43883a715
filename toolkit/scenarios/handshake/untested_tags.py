"""HS: every action at points of the handshake that other scenarios do not reach."""

from toolkit.lab.lab import Lab
from toolkit.lab.ways import V2_WAYS
from toolkit.scenarios.handshake import HS
from toolkit.scenarios.shared.flows import (
    Flow,
    Stop,
    bad_method,
    lost_race,
    missing_features,
    retry_global,
    session_reset,
    session_retry,
)
from toolkit.scenarios.shared.interception import cases, frame_points, held_and_open

_UNTESTED = {
    **cases(frame_points("AUTH_BAD_METHOD", "b"), bad_method),
    **cases(frame_points("AUTH_REPLY_MORE", "b") | frame_points("AUTH_REQUEST_MORE", "a")),
    **cases(frame_points("COMPRESSION_REQUEST", "a") | frame_points("COMPRESSION_DONE", "b")),
    **cases(frame_points("IDENT_MISSING_FEATURES", "b"), missing_features),
    **cases(frame_points("SESSION_RESET", "b"), session_reset),
    **cases(frame_points("SESSION_RETRY", "a"), session_retry),
    **cases(frame_points("SESSION_RETRY_GLOBAL", "b"), retry_global),
    **cases(frame_points("WAIT", "a"), lost_race),
}


@HS.scenario("HS-08", "fault_at_untested_tags", cases=_UNTESTED, ways=V2_WAYS)
def fault_at_untested_tags(lab: Lab, stop: Stop, flow: Flow) -> None:
    """A handshake survives a stop at frames of refusals, retries, extra authentication rounds and compression.

    Each frame comes from the flow that causes it: a method that is not allowed, a missing feature, a session that
    is gone, a stale connect_seq or global_seq, a lost race. Each is stopped at its writer and at its reader: by a
    fault, by a delay, or by the stream's end behind it. In the end there is one session, and only the messages
    that a full reset drops are lost.
    """
    held_and_open(lab, "peers", stop, flow)
