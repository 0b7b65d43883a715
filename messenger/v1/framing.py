"""The stream of an open v1 link: messages (tag, header, parts, footer) and small frames (docs/protocol.md §3.7).

A reader splits a receive buffer into frames; a writer appends the pieces of a message to a list of buffers. Both
ends of a link, the fault proxy and the decoders use the same two. This is the hot path: payloads are copied only
out of a receive buffer that will be reused.
"""

from collections.abc import Callable, Container
from struct import Struct
from typing import NamedTuple, Protocol, TypedDict

from messenger.crc import standard_crc32c
from messenger.denc.address import BLANK, EntityAddr
from messenger.denc.codec import Buffer
from messenger.denc.features import Feature, has_feature
from messenger.errors import DecodeError, FaultReason, PeerError
from messenger.messages.types import message_name
from messenger.pool import owned_part
from messenger.v1.wire import ADDR_SIZE, Frame, Tag, cut_small

HEADER = Struct("<QQHHHIIIHBqHHI")
"""Fields: seq, tid, type, priority, version, front_len, middle_len, data_len, data_off, src type, src num,
compat_version, reserved, crc."""
FOOTER = Struct("<IIIQB")
"""Fields: front_crc, middle_crc, data_crc, sig, flags; used with MSG_AUTH."""
FOOTER_OLD = Struct("<IIIB")
"""The same without sig."""

COMPLETE = 1
"""Footer flag; absent if the sender aborted the message."""
NOCRC = 2
"""Footer flag: data_crc was not computed."""
SIGNED = 4
"""Footer flag: sig was computed."""

_MSG_TAG = int(Tag.MSG)
_MSG = bytes([_MSG_TAG])
_INVERT = 0xFFFFFFFF

# The header without NOSRCADDR: two names with addresses in place of the name (§3.7).
_OLD_HEAD = Struct("<QQHHHIIIH")
_OLD_INST = 9 + ADDR_SIZE
_OLD_TAIL = Struct("<II")
OLD_HEADER_SIZE = _OLD_HEAD.size + 2 * _OLD_INST + _OLD_TAIL.size

# The fields of tag and header that are needed to skip a message: tag, type, the three lengths, crc.
_unpack_borders = Struct("<B16xH4xIII15xI").unpack_from
_unpack_header = HEADER.unpack_from
_unpack_seq = Struct("<Q").unpack_from
_pack_footer, _unpack_footer = FOOTER.pack, FOOTER.unpack_from
_pack_old_footer, _unpack_old_footer = FOOTER_OLD.pack, FOOTER_OLD.unpack_from
_pack_u32 = Struct("<I").pack
_pack_summed = Struct("<QQHHHIIIHBqHH").pack
_pack_name = Struct("<Bq").pack


class StreamForm(TypedDict):
    """The negotiated layout of messages: arguments of :class:`StreamReader` and :class:`MessageWriter`."""

    msg_auth: bool
    old_header: bool


def stream_form(features: int) -> StreamForm:
    """The layout of messages in both directions of a link with these negotiated features (§2.3)."""
    return StreamForm(
        msg_auth=has_feature(features, Feature.MSG_AUTH), old_header=not has_feature(features, Feature.NOSRCADDR)
    )


class Header(NamedTuple):
    """The header of a message."""

    seq: int
    tid: int
    type: int
    priority: int
    version: int
    front_len: int
    middle_len: int
    data_len: int
    data_off: int
    src_type: int
    src_num: int
    compat_version: int
    reserved: int
    crc: int


HeaderFields = Header | tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The same as a plain tuple, for the hot path."""

Signer = Callable[[int, int, int, int, int, int, int, int], int]
"""Computes a message's signature with the key of its connection. Arguments: header crc, front crc and length,
middle crc and length, data crc and length, seq."""

StreamFrame = tuple[int, HeaderFields, Buffer, Buffer, Buffer, int] | tuple[int, Frame]
"""A message: offset of its end, header, its three parts (``b""`` where absent), the footer's flags. A small frame:
offset of its end, and the frame."""


class FrameReader(Protocol):
    """Splits one direction of an open link into frames."""

    max_frame_bytes: int
    """Longer messages are refused before anything is allocated for them."""
    needed: int
    """Total bytes of the incomplete message; 0 while its header is incomplete."""

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """Tag of the frame at ``view[start:end]``, and the total length of a message's parts.

        Returns:
            None while the header of a message is incomplete.

        Raises:
            PeerError: HEADER_CRC, OVERSIZE.
        """

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> StreamFrame | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``, which is not empty; None while it is incomplete.

        Args:
            view: the receive buffer.
            start: offset of the frame.
            end: end of the received bytes.
            owned: True if the buffer will not be reused, so parts may be slices of it.

        Raises:
            PeerError: HEADER_CRC, SEGMENT_CRC, MESSAGE_SIGNATURE, OVERSIZE, ABORTED, UNKNOWN_TAG or
                UNEXPECTED_FRAME.
        """


class StreamReader:
    """Reads the frames of a link.

    Args:
        max_frame_bytes: longer messages are refused before anything is allocated for them.
        msg_auth: True if MSG_AUTH was negotiated: footers have a signature.
        signer: computes the expected signatures; None: signatures are not checked.
        check_header: verify the crcs of header, front and middle (``ms_crc_header``).
        check_data: verify the crc of data (``ms_crc_data``).
        old_header: True if NOSRCADDR was not negotiated.
    """

    __slots__ = (
        "_check_data",
        "_check_header",
        "_footer_bytes",
        "_head_bytes",
        "_new_footer",
        "_new_header",
        "_signer",
        "max_frame_bytes",
        "needed",
    )

    def __init__(
        self,
        max_frame_bytes: int,
        signer: Signer | None = None,
        *,
        msg_auth: bool = True,
        check_header: bool = True,
        check_data: bool = True,
        old_header: bool = False,
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.needed = 0
        self._head_bytes = 1 + (OLD_HEADER_SIZE if old_header else HEADER.size)
        self._footer_bytes = FOOTER.size if msg_auth else FOOTER_OLD.size
        self._new_header = not old_header
        self._new_footer = msg_auth
        self._signer = signer
        self._check_header = check_header
        self._check_data = check_data

    def head(self, view: memoryview, start: int, end: int) -> tuple[int, int] | None:
        """Tag of the frame at ``view[start:end]``, and the total length of a message's parts."""
        if view[start] != _MSG_TAG:
            return view[start], 0
        at = start + self._head_bytes
        if at > end:
            self.needed = 0
            return None
        header = _unpack_header(view, start + 1) if self._new_header else decode_old_header(view[start + 1 : at])
        if self._check_header and standard_crc32c(view[start + 1 : at - 4], _INVERT) ^ _INVERT != header[-1]:
            raise PeerError(FaultReason.HEADER_CRC, f"crc 0x{header[-1]:08x}")
        parts_bytes = header[5] + header[6] + header[7]
        self._incomplete(self._head_bytes + parts_bytes + self._footer_bytes)
        return _MSG_TAG, parts_bytes

    def next_frame(self, view: memoryview, start: int, end: int, owned: bool) -> StreamFrame | None:  # noqa: FBT001 - hot path
        """The frame at ``view[start:end]``, which is not empty; None while it is incomplete."""
        if view[start] != _MSG_TAG:
            self.needed = 0
            return cut_small(view, start, end)
        at = start + self._head_bytes
        if at > end:
            self.needed = 0
            return None
        header = _unpack_header(view, start + 1) if self._new_header else decode_old_header(view[start + 1 : at])
        _, _, type_, _, _, front_len, middle_len, data_len, _, _, _, _, _, crc = header
        check_header = self._check_header
        if check_header and standard_crc32c(view[start + 1 : at - 4], _INVERT) ^ _INVERT != crc:
            raise PeerError(FaultReason.HEADER_CRC, f"crc 0x{crc:08x}")
        stop = at + front_len + middle_len + data_len + self._footer_bytes
        if stop > end or stop - start > self.max_frame_bytes:
            self._incomplete(stop - start)
            return None
        front: Buffer = b""
        middle: Buffer = b""
        data: Buffer = b""
        if front_len:
            front = owned_part(view[at : at + front_len]) if owned else view[at : at + front_len].tobytes()
            at += front_len
        if middle_len:
            middle = owned_part(view[at : at + middle_len]) if owned else view[at : at + middle_len].tobytes()
            at += middle_len
        if data_len:
            data = owned_part(view[at : at + data_len]) if owned else view[at : at + data_len].tobytes()
            at += data_len
        sig = 0
        if self._new_footer:
            front_crc, middle_crc, data_crc, sig, flags = _unpack_footer(view, at)
        else:
            front_crc, middle_crc, data_crc, flags = _unpack_old_footer(view, at)
        if not flags & COMPLETE:
            raise PeerError(FaultReason.ABORTED, f"type {type_} seq {header[0]}")
        # An absent part has crc 0.
        if check_header and (
            (standard_crc32c(front, _INVERT) ^ _INVERT if front_len else 0) != front_crc
            or (standard_crc32c(middle, _INVERT) ^ _INVERT if middle_len else 0) != middle_crc
        ):
            raise PeerError(FaultReason.SEGMENT_CRC, f"front or middle of type {type_} seq {header[0]}")
        if (
            self._check_data
            and not flags & NOCRC
            and (standard_crc32c(data, _INVERT) ^ _INVERT if data_len else 0) != data_crc
        ):
            raise PeerError(FaultReason.SEGMENT_CRC, f"data of type {type_} seq {header[0]}")
        sign = self._signer
        if (
            sign is not None
            and sign(crc, front_crc, front_len, middle_crc, middle_len, data_crc, data_len, header[0]) != sig
        ):
            what = "wrong" if flags & SIGNED else "missing"
            raise PeerError(FaultReason.MESSAGE_SIGNATURE, f"{what} on type {type_} seq {header[0]}")
        return stop, header, front, middle, data, flags

    def pass_messages(
        self, view: memoryview, start: int, end: int, starts: list[int], stops: list[int], special: Container[int]
    ) -> int:
        """Check consecutive messages, and record the start and end of each.

        Stops before the first frame that is not a valid message with a new header, which :meth:`next_frame` then
        reads or refuses.

        Args:
            view: bytes of the stream.
            start: offset of a frame.
            end: end of the bytes.
            starts: the offset of each message is appended to this list.
            stops: the end of each message is appended to this list.
            special: types of messages before which it stops.

        Returns:
            The offset at which it stopped.
        """
        limit, sign = self.max_frame_bytes, self._signer
        check_header, check_data = self._check_header, self._check_data
        head_bytes, footer_bytes, new_footer = self._head_bytes, self._footer_bytes, self._new_footer
        last = end - head_bytes - footer_bytes
        if not self._new_header:
            return start
        while start <= last:
            tag, type_, front_len, middle_len, data_len, crc = _unpack_borders(view, start)
            at = start + head_bytes
            middle = at + front_len
            data = middle + middle_len
            footer = data + data_len
            stop = footer + footer_bytes
            if tag != _MSG_TAG or stop > end or stop - start > limit or type_ in special:
                break
            sig = 0
            if new_footer:
                front_crc, middle_crc, data_crc, sig, flags = _unpack_footer(view, footer)
            else:
                front_crc, middle_crc, data_crc, flags = _unpack_old_footer(view, footer)
            if (
                not flags & COMPLETE
                or (
                    check_header
                    and (
                        standard_crc32c(view[start + 1 : at - 4], _INVERT) ^ _INVERT != crc
                        or (standard_crc32c(view[at:middle], _INVERT) ^ _INVERT if front_len else 0) != front_crc
                        or (standard_crc32c(view[middle:data], _INVERT) ^ _INVERT if middle_len else 0)
                        != middle_crc
                    )
                )
                or (
                    check_data
                    and not flags & NOCRC
                    and (standard_crc32c(view[data:footer], _INVERT) ^ _INVERT if data_len else 0) != data_crc
                )
            ):
                break
            if sign is not None:
                (seq,) = _unpack_seq(view, start + 1)
                if sign(crc, front_crc, front_len, middle_crc, middle_len, data_crc, data_len, seq) != sig:
                    break
            starts.append(start)
            stops.append(stop)
            start = stop
        return start

    def _incomplete(self, total: int) -> None:
        if total > self.max_frame_bytes:
            raise PeerError(FaultReason.OVERSIZE, f"{total} bytes, the limit is {self.max_frame_bytes}")
        self.needed = total


def decode_old_header(view: Buffer) -> Header:
    """Decode the header of a message on a link without NOSRCADDR; its addresses are skipped.

    Raises:
        DecodeError: it is too short.
    """
    if len(view) < OLD_HEADER_SIZE:
        raise DecodeError(f"old message header of {len(view)} bytes, {OLD_HEADER_SIZE} are needed")
    head = _OLD_HEAD.unpack_from(view)
    src_type, src_num = Struct("<Bq").unpack_from(view, _OLD_HEAD.size)
    reserved, crc = _OLD_TAIL.unpack_from(view, OLD_HEADER_SIZE - _OLD_TAIL.size)
    return Header._make((*head, src_type, src_num, 0, reserved, crc))


class MessageWriter:
    """Builds messages for one direction of a link.

    Args:
        signer: computes the signatures; None: messages are not signed.
        msg_auth: True if MSG_AUTH was negotiated: footers have a signature.
        old_header: True if NOSRCADDR was not negotiated.
        addr: the sender's address, which only the old header contains.
        sum_header: compute the crcs of header, front and middle (``ms_crc_header``).
        sum_data: compute the crc of data (``ms_crc_data``).
    """

    __slots__ = ("_frame_bytes", "_new_footer", "_old_addr", "_signer", "_sum_data", "_sum_header")

    def __init__(
        self,
        signer: Signer | None = None,
        *,
        msg_auth: bool = True,
        old_header: bool = False,
        addr: EntityAddr = BLANK,
        sum_header: bool = True,
        sum_data: bool = True,
    ) -> None:
        self._new_footer = msg_auth
        self._old_addr = addr.legacy_image() if old_header else b""
        self._signer = signer
        self._sum_header = sum_header
        self._sum_data = sum_data
        head_bytes = OLD_HEADER_SIZE if old_header else HEADER.size
        self._frame_bytes = 1 + head_bytes + (FOOTER.size if msg_auth else FOOTER_OLD.size)

    def message(
        self,
        pieces: list[Buffer],
        fields: tuple[int, int, int, int, int],
        parts: tuple[Buffer, Buffer, Buffer],
        data_off: int,
        src: tuple[int, int],
        compat_version: int,
    ) -> int:
        """Append a message to ``pieces``; returns its length on the wire.

        Args:
            pieces: list to which the buffers of the message are appended.
            fields: seq, tid, type, priority, version.
            parts: front, middle, data.
            data_off: header field of that name.
            src: entity type and number of the sender.
            compat_version: header field of that name, which the old header lacks.
        """
        front, middle, data = parts
        front_len, middle_len, data_len = len(front), len(middle), len(data)
        if self._old_addr:
            inst = _pack_name(*src) + self._old_addr
            summed = _OLD_HEAD.pack(*fields, front_len, middle_len, data_len, data_off) + 2 * inst + bytes(4)
        else:
            summed = _pack_summed(*fields, front_len, middle_len, data_len, data_off, *src, compat_version, 0)
        crc = front_crc = middle_crc = data_crc = sig = 0
        flags = COMPLETE
        if self._sum_header:
            crc = standard_crc32c(summed, _INVERT) ^ _INVERT
            front_crc = standard_crc32c(front, _INVERT) ^ _INVERT if front_len else 0
            middle_crc = standard_crc32c(middle, _INVERT) ^ _INVERT if middle_len else 0
        if not self._sum_data:
            flags = COMPLETE | NOCRC
        elif data_len:
            data_crc = standard_crc32c(data, _INVERT) ^ _INVERT
        if self._signer is not None:
            sig = self._signer(crc, front_crc, front_len, middle_crc, middle_len, data_crc, data_len, fields[0])
            flags |= SIGNED
        pieces.append(_MSG + summed + _pack_u32(crc))
        if front_len:
            pieces.append(front)
        if middle_len:
            pieces.append(middle)
        if data_len:
            pieces.append(data)
        if self._new_footer:
            pieces.append(_pack_footer(front_crc, middle_crc, data_crc, sig, flags))
        else:
            pieces.append(_pack_old_footer(front_crc, middle_crc, data_crc, flags))
        return self._frame_bytes + front_len + middle_len + data_len


def printable_message(header: HeaderFields) -> dict[str, object]:
    """The fields of a message header, as JSON values."""
    fields = Header._make(header)
    return {
        "type": fields.type,
        "name": message_name(fields.type),
        "seq": fields.seq,
        "tid": fields.tid,
        "priority": fields.priority,
        "version": fields.version,
        "compat_version": fields.compat_version,
        "front": fields.front_len,
        "middle": fields.middle_len,
        "data": fields.data_len,
    }
