"""IX: the differences of other implementations, between nodes with all rules of one of them."""

from collections.abc import Callable, Mapping
from functools import partial

from messenger.rules import PROFILES
from toolkit.lab.lab import Lab
from toolkit.lab.ways import ways
from toolkit.scenarios.handshake import disputed_addresses
from toolkit.scenarios.interoperation import IX
from toolkit.scenarios.keepalive import disputed_keepalive
from toolkit.scenarios.lossless_client import disputed_numbers
from toolkit.scenarios.lossless_peer import disputed_races
from toolkit.scenarios.lossless_server import standby
from toolkit.scenarios.malformed import claims, disputed_frames
from toolkit.scenarios.network_faults import disputed_ports
from toolkit.scenarios.sequence_numbers import numbers
from toolkit.scenarios.session_reset import disputed_resets, resets

_SHOWN: Mapping[str, Callable[..., None]] = {
    "restarted_peer": partial(disputed_races.peer_restart_during_race, both=False),
    "race_winner": partial(disputed_races.one_way_dial_only, able="loser"),
    "skipped_seq": numbers.skipped_seq,
    "aborted_message": numbers.aborted_message,
    "server_wait": resets.wait_frame,
    "peer_identity": disputed_frames.peer_identity,
    "peer_addresses": disputed_frames.peer_addresses,
    "server_addresses": disputed_addresses.server_addresses,
    "server_number": disputed_numbers.server_number,
    "hello_addr": disputed_addresses.hello_addr,
    "portless_peer": disputed_ports.portless_peer,
    "server_keepalive": disputed_keepalive.server_keepalive,
    "partial_reset": disputed_resets.partial_reset,
    "reconnect_cookies": disputed_resets.reconnect_cookies,
    "control_segments": disputed_frames.control_segments,
    "segment_alignment": disputed_frames.segment_alignment,
    "unknown_message": claims.message_type_unknown,
    "standby_keepalive": partial(standby.standby_wake_by_keepalive, node="a"),
}
"""The scenario of each rule in which an implementation differs; called with the lab and ``rule``."""

_V2_ONLY = {
    *("restarted_peer", "server_addresses", "partial_reset", "reconnect_cookies"),
    *("aborted_message", "control_segments", "segment_alignment", "server_number", "hello_addr"),
}

_CASES = {
    f"{name} {rule}": {"implementation": name, "rule": rule, "setting": setting}
    for name, profile in PROFILES.items()
    for rule, setting in profile.items()
}


@IX.scenario(
    "IX-06",
    "known_difference_list",
    priority=2,
    rules=tuple(_SHOWN),
    ways=ways("v2-crc", "v2-secure", "v1"),
    cases=_CASES,
    v1_cases={name: case for name, case in _CASES.items() if case["rule"] not in _V2_ONLY},
)
def known_difference_list(lab: Lab, implementation: str, rule: str, setting: str) -> None:
    """A node with all rules of one implementation behaves by each rule in which it differs.

    The nodes have the rules of AsyncMessenger (classic), of crimson, or of the kernel client, all at once. Each
    rule in which that implementation differs is tested as in the scenario of that rule alone.
    """
    lab.like(implementation)
    _SHOWN[rule](lab, rule=setting)
