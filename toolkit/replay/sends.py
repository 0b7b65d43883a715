"""The sends of the replayed side's application: the recorded messages and keepalives."""

from messenger.denc.entity import NEW_ENTITY_NUM, EntityName, EntityType
from messenger.messages.message import Message
from messenger.v1.framing import HEADER
from messenger.v2.wire import MESSAGE_HEADER, MESSAGE_HEADER_FIELDS
from toolkit.dissect.frames import DecodedFrame

ORIGINATES = frozenset({"MESSAGE", "MSG", "KEEPALIVE", "KEEPALIVE2"})
"""Tags of frames that an application requests."""
_DATA_OFF = MESSAGE_HEADER_FIELDS.index("data_off")
_V1_DATA_OFF = 8


def sender_of(frame: DecodedFrame) -> EntityName | None:
    """Return the sender in the header of a v1 message; None if it is unknown."""
    kind, _, number = (
        frame.message.src.partition(".") if frame.protocol == "v1" and frame.message else ("", "", "")
    )
    if not kind:
        return None
    return EntityName(EntityType.from_label(kind), int(number) if number.isdecimal() else NEW_ENTITY_NUM)


def message_of(frame: DecodedFrame) -> Message:
    """Return the message that an application sent in this frame: its numbers and its parts."""
    info = frame.message
    assert info is not None
    header, front, middle, data = frame.segments
    layout, place = (HEADER, _V1_DATA_OFF) if frame.protocol == "v1" else (MESSAGE_HEADER, _DATA_OFF)
    data_off = layout.unpack_from(header)[place] if len(header) >= layout.size else 0
    return Message(
        info.type,
        bytes(front),
        bytes(middle),
        bytes(data),
        info.tid,
        info.priority,
        info.version,
        info.compat_version,
        0,
        0,
        data_off,
    )
