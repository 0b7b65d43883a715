"""IX: what other implementations do otherwise, between nodes that keep to all rules of one of them."""

from collections.abc import Callable, Mapping
from functools import partial

from messenger.rules import PROFILES
from toolkit.scenarios.families import disputed
from toolkit.scenarios.families.by_hand import numbers, resets
from toolkit.scenarios.families.ix import IX
from toolkit.scenarios.families.life import disputed as races
from toolkit.scenarios.families.life import standby
from toolkit.scenarios.families.mf import messages
from toolkit.scenarios.lab import Lab
from toolkit.scenarios.ways import ways

_SHOWN: Mapping[str, Callable[..., None]] = {
    "restarted_peer": partial(races.peer_restart_during_race, both=False),
    "race_winner": partial(races.one_way_dial_only, able="loser"),
    "skipped_seq": numbers.skipped_seq,
    "aborted_message": numbers.aborted_message,
    "server_wait": resets.wait_frame,
    "peer_identity": disputed.peer_identity,
    "peer_addresses": disputed.peer_addresses,
    "server_addresses": disputed.server_addresses,
    "server_number": disputed.server_number,
    "hello_addr": disputed.hello_addr,
    "portless_peer": disputed.portless_peer,
    "server_keepalive": disputed.server_keepalive,
    "partial_reset": disputed.partial_reset,
    "reconnect_cookies": disputed.reconnect_cookies,
    "control_segments": disputed.control_segments,
    "segment_alignment": disputed.segment_alignment,
    "unknown_message": messages.message_type_unknown,
    "standby_keepalive": partial(standby.standby_wake_by_keepalive, node="a"),
}
"""What shows a setting of each rule that some implementation has otherwise; takes the lab and ``rule``."""

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
    """Each thing that an implementation does otherwise is done so where all its rules are in force.

    Nodes keep to the rules of AsyncMessenger (classic), of crimson, or of a client of the kernel, all of them
    together. What is otherwise by one of these rules is shown as by the row that is about that rule alone.
    """
    lab.like(implementation)
    _SHOWN[rule](lab, rule=setting)
