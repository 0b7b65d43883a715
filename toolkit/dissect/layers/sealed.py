"""Frames of secure mode as layers (docs/protocol.md §4.5): what was sent, and what is inside if a key is known."""

from typing import Self

from messenger.denc.codec import Buffer
from messenger.v2.framing import FrameReader, FrameWriter
from messenger.v2.preamble import Segments, used_segments
from messenger.v2.wire import Tag
from toolkit.dissect.layers.fields import BytesField, OpenedField
from toolkit.dissect.layers.frame import MSGR2, Frame, MSGR2_Rev0
from toolkit.dissect.layers.layer import Layer


class MSGR2_Secure(Layer):
    """A sealed frame. It is built as it was sealed; ``opened`` is a frame of its own, and may be built as one.

    To send something else, change ``opened`` and :meth:`seal` it with a writer of the link.
    """

    __slots__: list[str] = []
    name = "MSGR2 secure"
    fields_desc = [BytesField("ciphertext", lambda _pkt, rest: len(rest)), OpenedField("opened")]

    @classmethod
    def seal(cls, frame: Frame, writer: FrameWriter) -> Self:
        """A frame, sealed as the next one that the writer sends."""
        header, front, middle, data = frame.segments()
        pieces: list[Buffer] = []
        if frame.tag == Tag.MESSAGE:
            writer.message(pieces, header, front, middle, data)
        else:
            pieces.append(writer.control(frame.tag, header))
        return cls(ciphertext=b"".join(pieces), opened=frame)

    def open(self, reader: FrameReader, *, revision: int = 1) -> Self:
        """Open it as the next frame of a link, and keep what is inside; returns itself.

        Args:
            reader: of the direction it was sent in.
            revision: of the frames of its link: 1 for msgr 2.1, 0 for 2.0.

        Raises:
            PeerError: the key is another, or the frame is not the next one, or not whole.
        """
        sealed = bytes(self.getfieldval("ciphertext"))
        found = reader.next_frame(memoryview(sealed), 0, len(sealed), owned=False)
        if found is not None:
            _, tag, *segments = found
            self.fields["opened"] = frame_of(tag, tuple(segments), revision=revision)  # type: ignore[arg-type]
        return self

    def line(self) -> str:
        """What is inside, or how much."""
        opened, size = self.getfieldval("opened"), len(self.getfieldval("ciphertext"))
        return f"{opened.summary()} ({size} bytes sealed)" if opened else f"MSGR2 sealed {size} bytes"


def frame_of(tag: int, segments: Segments, *, revision: int = 1) -> Frame:
    """A frame with these segments, whose crcs are computed when it is built.

    Args:
        tag: of the frame.
        segments: all four.
        revision: 1 for msgr 2.1, 0 for 2.0.
    """
    layer = MSGR2 if revision else MSGR2_Rev0
    parts = [bytes(segment) for segment in segments]
    l0, l1, l2, l3 = map(len, parts)
    used = used_segments((l0, l1, l2, l3))
    frame = layer(tag=tag, num_segments=used, length0=l0, length1=l1, length2=l2, length3=l3)
    frame.do_dissect_payload(b"".join(parts))
    return frame
