"""What the data phases of both protocols share: how much is put together, and how."""

from messenger.denc.codec import Buffer
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.messages.registry import decode_payload

BATCH_BYTES = 512 * 1024
"""Frames are built up to about this much before they are handed to the transport."""
JOIN_BELOW_BYTES = 16 * 1024
"""Pieces shorter than this are cheaper to copy into one buffer than to hand over one by one."""


def decode_message(message: Message, features: int) -> None:
    """Find out what a received message means.

    Raises:
        PeerError: BAD_MESSAGE; a message that does not decode ends the link, as in Ceph (docs/protocol.md §6.1).
    """
    try:
        message.payload = decode_payload(message, features)
    except DecodeError as error:
        raise PeerError(
            FaultReason.BAD_MESSAGE, f"type {message.type} seq {message.seq}: {error.detail}"
        ) from None


def joined(pieces: list[Buffer]) -> list[Buffer]:
    """The pieces with runs of small ones joined; large payloads stay the buffers they are."""
    result: list[Buffer] = []
    run: list[Buffer] = []
    for piece in pieces:
        if len(piece) < JOIN_BELOW_BYTES:
            run.append(piece)
            continue
        if run:
            result.append(b"".join(run))
            run = []
        result.append(piece)
    if run:
        result.append(b"".join(run))
    return result
