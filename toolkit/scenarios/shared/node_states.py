"""Where scenarios with a peer by hand meet a node: its states, and the ways that make a difference there."""

from collections.abc import Iterator

from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, V1_PLACES, V2_PLACES, Place
from toolkit.lab.ways import ways

ROLES = {"connector": {"role": CONNECTOR}, "acceptor": {"role": ACCEPTOR}}
"""A case for either role of the node."""

FEW_WAYS = ways("v2-crc", "v2-secure", "v2-compressed", "v1")
"""For what depends on nothing else: neither on the cipher of tickets nor on shards."""
FEW_V2_WAYS = ways("v2-crc", "v2-secure", "v2-compressed")

_EARLY_AND_LATE = {"HELLO_CONNECTING", "HELLO_ACCEPTING", "READY"}


def places_of(role: str, *, v1: bool = False) -> list[Place]:
    """Where a node of that role receives something."""
    return [place for place in (V1_PLACES if v1 else V2_PLACES) if place.role == role]


def early_and_late(role: str) -> Iterator[Place]:
    """On v2: before the peer has authenticated, and in the data phase."""
    return (place for place in places_of(role) if place.state in _EARLY_AND_LATE)
