"""Which end of a link is the client, if the capture lacks its introduction: the frames of a v2 handshake show it.

Both ends send their banner and HELLO at once, so the order of packets does not (docs/protocol.md §4.2, §4.5).
"""

from collections.abc import Iterable, Sequence

from messenger.v2.wire import Tag
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower
from toolkit.dissect.roce.headers import PSN_MASK, RESPONSES, SENDS
from toolkit.dissect.roce.link import RocePacket

_BANNER = b"ceph v2\n"
_OF_CLIENT = {Tag.AUTH_REQUEST.name, Tag.AUTH_REQUEST_MORE.name}
_OF_SERVER = {Tag.AUTH_BAD_METHOD.name, Tag.AUTH_REPLY_MORE.name, Tag.AUTH_DONE.name}
_MOST_PACKETS = 32
"""Number of packets of both directions that wait for a frame that only one end sends."""


def has_roles(one: Sequence[RocePacket], other: Sequence[RocePacket]) -> bool:
    """True if the roles of two directions are known, or will not become known by waiting for more packets."""
    if len(one) + len(other) >= _MOST_PACKETS or not all(_begins(each) for each in (one, other)):
        return True
    return _sends_as_client(one, other) is not None


def is_client(one: Sequence[RocePacket], other: Sequence[RocePacket]) -> bool:
    """True if ``one`` has the packets of the client: by its frames, else because its first request came first."""
    known = _sends_as_client(one, other)
    return _first_request(one) <= _first_request(other) if known is None else known


def _sends_as_client(one: Sequence[RocePacket], other: Sequence[RocePacket]) -> bool | None:
    """Return True if a frame shows that ``one`` is the client's direction, False for the server's, else None."""
    follower = LinkFollower()
    frames = follower.feed(Direction.TO_SERVER, _bytes_of(one)) + follower.feed(
        Direction.TO_CLIENT, _bytes_of(other)
    )
    for frame in frames:
        if frame.tag in _OF_CLIENT | _OF_SERVER:
            return (frame.tag in _OF_CLIENT) is (frame.direction is Direction.TO_SERVER)
    return None


def _begins(packets: Sequence[RocePacket]) -> bool:
    """True if a direction begins with a banner of v2, as far as its bytes are there."""
    head = _bytes_of(packets)[: len(_BANNER)]
    return _BANNER.startswith(head)


def _bytes_of(packets: Iterable[RocePacket]) -> bytes:
    """Return the bytes of a direction up to its first missing packet."""
    sent = {one.header.psn: bytes(one.data) for one in packets if one.header.opcode in SENDS}
    joined = bytearray()
    psn = next(iter(sent), None)
    while psn in sent:
        joined += sent[psn]
        psn = psn + 1 & PSN_MASK
    return bytes(joined)


def _first_request(packets: Sequence[RocePacket]) -> int:
    """Return the number of the first packet that is no response; a larger one if there is none."""
    requests = (one.packet for one in packets if one.header.opcode not in RESPONSES)
    return next(requests, packets[-1].packet + (1 << 62))
