"""History records of messages; the same for all programs."""

import hashlib
from typing import Any

from messenger.connection import Connection
from messenger.messages.message import Message

_DIGEST_BYTES = 8


def message_fields(connection: Connection, peer: str, numbers: dict[str, int], message: Message) -> dict[str, Any]:
    """Return the fields of the record of a message that is sent or delivered.

    Args:
        connection: connection of the message.
        peer: name of the peer, for the history.
        numbers: the message's tid and, for a delivered one, its seq.
        message: the message; its digest covers the data and, unless empty, front and middle.
    """
    digest = hashlib.blake2b(message.data, digest_size=_DIGEST_BYTES)
    if len(message.front) or len(message.middle):
        digest.update(b"front")
        digest.update(message.front)
        digest.update(b"middle")
        digest.update(message.middle)
    return {
        "session": connection.session.id,
        "peer": peer,
        **numbers,
        "digest": digest.hexdigest(),
        "size": message.size_bytes,
        "priority": message.priority,
        "type": message.type,
        "version": message.version,
    }
