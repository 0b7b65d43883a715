"""HS: every action at points of the handshake that other scenarios do not come to."""

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
from toolkit.scenarios.shared.interception import cases, held_and_open, said

_UNTESTED = {
    **cases(said("AUTH_BAD_METHOD", "b"), bad_method),
    **cases(said("AUTH_REPLY_MORE", "b") | said("AUTH_REQUEST_MORE", "a")),
    **cases(said("COMPRESSION_REQUEST", "a") | said("COMPRESSION_DONE", "b")),
    **cases(said("IDENT_MISSING_FEATURES", "b"), missing_features),
    **cases(said("SESSION_RESET", "b"), session_reset),
    **cases(said("SESSION_RETRY", "a"), session_retry),
    **cases(said("SESSION_RETRY_GLOBAL", "b"), retry_global),
    **cases(said("WAIT", "a"), lost_race),
}


@HS.scenario("HS-08", "fault_at_untested_tags", cases=_UNTESTED, ways=V2_WAYS)
def fault_at_untested_tags(lab: Lab, stop: Stop, flow: Flow) -> None:
    """Handshakes with refusals, retries, more authentication rounds or compression survive a stop at any point.

    Flows that really lead to these frames: a method that is not allowed, a feature that is missing, a session
    that is gone, a connect_seq or a global_seq that is stale, a lost race. Each frame is stopped on either side,
    by a fault, for a while, or by a stream that ends behind it: in the end there is one session, and nothing is
    lost but what a full reset takes.
    """
    held_and_open(lab, "peers", stop, flow)
