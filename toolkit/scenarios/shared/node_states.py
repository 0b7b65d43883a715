"""The states of a node in scenarios with a raw peer, and the ways in which such scenarios run."""

from collections.abc import Iterator

from toolkit.lab.raw_places import ACCEPTOR, CONNECTOR, V1_PLACES, V2_PLACES, Place
from toolkit.lab.ways import ways

ROLES = {"connector": {"role": CONNECTOR}, "acceptor": {"role": ACCEPTOR}}
"""A case for each role of the node."""

FEW_WAYS = ways("v2-crc", "v2-secure", "v2-compressed", "v1")
"""Ways for scenarios that do not depend on the cipher of keys or on shards."""
FEW_V2_WAYS = ways("v2-crc", "v2-secure", "v2-compressed")

_EARLY_AND_LATE = {"HELLO_CONNECTING", "HELLO_ACCEPTING", "READY"}


def places_of(role: str, *, v1: bool = False) -> list[Place]:
    """The states of that role in which the node receives frames."""
    return [place for place in (V1_PLACES if v1 else V2_PLACES) if place.role == role]


def early_and_late(role: str) -> Iterator[Place]:
    """On v2, the states for HELLO, before authentication, and READY, in the data phase."""
    return (place for place in places_of(role) if place.state in _EARLY_AND_LATE)
