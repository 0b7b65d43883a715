"""Frames of secure mode as layers (docs/protocol.md §4.5): the sealed bytes, and their content if it is opened."""

from typing import Self

from messenger.denc.codec import Buffer
from messenger.v2.framing import FrameReader, FrameWriter
from messenger.v2.preamble import Segments, used_segments
from messenger.v2.wire import Tag
from toolkit.dissect.layers.fields import BytesField, OpenedField
from toolkit.dissect.layers.frame import MSGR2, Frame, MSGR2_Rev0
from toolkit.dissect.layers.layer import Layer


class MSGR2_Secure(Layer):
    """A sealed frame. It is built from the sealed bytes; ``opened`` is its content, a frame of its own.

    To send other content, change ``opened`` and :meth:`seal` it with a writer of the link.
    """

    __slots__: list[str] = []
    name = "MSGR2 secure"
    fields_desc = [BytesField("ciphertext", lambda _pkt, rest: len(rest)), OpenedField("opened")]

    @classmethod
    def seal(cls, frame: Frame, writer: FrameWriter) -> Self:
        """Seal a frame as the next one that the writer sends."""
        header, front, middle, data = frame.segments()
        pieces: list[Buffer] = []
        if frame.tag == Tag.MESSAGE:
            writer.message(pieces, header, front, middle, data)
        else:
            pieces.append(writer.control(frame.tag, header))
        return cls(ciphertext=b"".join(pieces), opened=frame)

    def open(self, reader: FrameReader, *, revision: int = 1) -> Self:
        """Decrypt the frame as the next one of a link and keep its content; returns the layer itself.

        Args:
            reader: reader of the direction in which it was sent.
            revision: revision of the link's frames: 1 for msgr 2.1, 0 for 2.0.

        Raises:
            PeerError: the key is wrong, or the frame is not the next one or is incomplete.
        """
        sealed = bytes(self.getfieldval("ciphertext"))
        found = reader.next_frame(memoryview(sealed), 0, len(sealed), owned=False)
        if found is not None:
            _, tag, *segments = found
            self.fields["opened"] = frame_of(tag, tuple(segments), revision=revision)  # type: ignore[arg-type]
        return self

    def line(self) -> str:
        """Return the content in one line, or the number of bytes if it is not opened."""
        opened, size = self.getfieldval("opened"), len(self.getfieldval("ciphertext"))
        return f"{opened.summary()} ({size} bytes sealed)" if opened else f"MSGR2 sealed {size} bytes"


def frame_of(tag: int, segments: Segments, *, revision: int = 1) -> Frame:
    """Return a frame with these segments, whose crcs are computed when it is built.

    Args:
        tag: tag of the frame.
        segments: all four segments.
        revision: 1 for msgr 2.1, 0 for 2.0.
    """
    layer = MSGR2 if revision else MSGR2_Rev0
    parts = [bytes(segment) for segment in segments]
    l0, l1, l2, l3 = map(len, parts)
    used = used_segments((l0, l1, l2, l3))
    frame = layer(tag=tag, num_segments=used, length0=l0, length1=l1, length2=l2, length3=l3)
    frame.do_dissect_payload(b"".join(parts))
    return frame
