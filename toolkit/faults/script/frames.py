"""Convert frames that pass a tap to decoder records, which filters of rules are evaluated on."""

from functools import partial

from messenger.messages.message import Message
from toolkit.dissect.direction import Direction
from toolkit.dissect.fields import message_fields
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.frames import DecodedFrame, MessageInfo, Verdict
from toolkit.dissect.stream import Stream
from toolkit.faults.rewrites import is_message

_FORMS = {
    Form.CRC: ("v2.1", "crc"),
    Form.SECURE: ("v2.1", "secure"),
    Form.REV0_CRC: ("v2.0", "crc"),
    Form.REV0_SECURE: ("v2.0", "secure"),
}


def as_decoded(frame: SeenFrame, connector: str, acceptor: str) -> DecodedFrame:
    """Return the decoder's record of a frame, with names of parties as addresses; times and packets are 0.

    Args:
        frame: the frame.
        connector: name of the sender of frames to the server.
        acceptor: name of the sender of frames to the client.
    """
    v1 = frame.source is not None and frame.source.is_v1
    protocol, mode = _FORMS.get(frame.form, ("v1" if v1 else "v2.1", "crc"))
    sealed = mode == "secure"
    record = DecodedFrame(
        frame=frame.index,
        time_ns=0,
        packet=0,
        stream=Stream(frame.link, connector, acceptor, opening_seen=True),
        direction=Direction(frame.direction),
        protocol=protocol,
        mode=mode,
        tag=frame.tag,
        offset=frame.offset,
        length=len(frame.raw),
        crc=Verdict.NONE if sealed or frame.form is Form.PLAIN else Verdict.OK,
        auth=Verdict.OK if sealed else Verdict.NONE,
        segments=frame.segments,
        wire=frame.raw,
        read_fields=lambda: frame.fields,
    )
    if is_message(frame):
        _add_message(record, frame)
    return record


def _add_message(record: DecodedFrame, frame: SeenFrame) -> None:
    fields = frame.fields
    names = ("type", "seq", "tid", "version", "compat_version", "priority", "front", "middle", "data")
    numbers = {name: fields.get(name, 0) for name in names}
    name, src, ack_seq = str(fields["name"]), str(fields.get("src", "")), fields.get("ack_seq", 0)
    record.message = MessageInfo(name=name, src=src, ack_seq=ack_seq, **numbers)  # type: ignore[arg-type]
    front, middle, data = frame.segments[-3:]
    message = Message(record.message.type, front, middle, data, version=record.message.version)
    message.compat_version = record.message.compat_version
    features = frame.source.features if frame.source is not None else 0
    record.read_fields = partial(message_fields, message, features)
