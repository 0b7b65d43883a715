"""What the data phases of both protocols share: batch sizes, decoding of messages, joining of buffers."""

from messenger.denc.codec import Buffer
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.message import Message
from messenger.messages.registry import decode_payload

BATCH_BYTES = 512 * 1024
"""Frames are built up to about this many bytes before they are handed to the transport."""
JOIN_BELOW_BYTES = 16 * 1024
"""Shorter buffers are cheaper to copy into one than to pass to the transport one by one."""


def decode_message(message: Message, features: int) -> None:
    """Decode the payload of a received message.

    Raises:
        PeerError: BAD_MESSAGE: the payload cannot be decoded, which ends the link (docs/protocol.md §6.1).
    """
    try:
        message.payload = decode_payload(message, features)
    except DecodeError as error:
        raise PeerError(
            FaultReason.BAD_MESSAGE, f"type {message.type} seq {message.seq}: {error.detail}"
        ) from None


def joined(pieces: list[Buffer]) -> list[Buffer]:
    """Join runs of small buffers; large ones are returned as they are, without a copy."""
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
