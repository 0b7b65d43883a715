"""Operations on the data of an object, and its creation and removal."""

import errno
from typing import Any

from messenger.crc import crc32c
from messenger.denc.codec import Encoder
from messenger.messages.osd_operations import OpCode, OpFlag, OsdOp
from toolkit.embedded.osd.store import OBJECT_BYTES
from toolkit.embedded.osd.work import OpError, Work, handles

_MAX_ERRNO = 4095
_CRC32C = 2
"""The only checksum type that CHECKSUM supports here."""
_XXHASHES = (0, 1)
"""Ceph's other checksum types, xxHash with 32 and with 64 bits."""
_CRC_BYTES = 4


def _extent(op: OsdOp, data: bytes) -> bytes:
    """Return the part of the data that an operation reads; length 0 means up to the end."""
    start, length = op.args["offset"], op.args["length"]
    return data[start : start + length] if length else data[start:]


def _overwritten(data: bytes, offset: int, piece: bytes) -> bytes:
    """Return the data with a piece written over it; a gap before the piece is filled with zeros."""
    if offset + len(piece) > OBJECT_BYTES:
        raise OpError(errno.EFBIG)
    return data[:offset].ljust(offset, b"\0") + piece + data[offset + len(piece) :]


def _data_of(work: Work) -> bytes:
    return work.draft.data if work.draft is not None else b""


@handles(OpCode.READ)
def read(work: Work, op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return a part of the data."""
    return _extent(op, work.existing().data)


@handles(OpCode.SPARSE_READ)
def sparse_read(work: Work, op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return a part of the data, as one extent."""
    data = _extent(op, work.existing().data)
    encoder = Encoder()
    encoder.mapping({op.args["offset"]: len(data)} if data else {}, encoder.u64, encoder.u64)
    encoder.blob(data)
    return encoder.getvalue()


@handles(OpCode.MAPEXT)
def mapext(work: Work, op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return the extents that contain data."""
    data = _extent(op, work.existing().data)
    encoder = Encoder()
    encoder.mapping({op.args["offset"]: len(data)} if data else {}, encoder.u64, encoder.u64)
    return encoder.getvalue()


@handles(OpCode.STAT)
def stat(work: Work, _op: OsdOp, _given: dict[str, Any]) -> bytes:
    """Return size and modification time."""
    stored = work.existing()
    encoder = Encoder()
    encoder.u64(len(stored.data))
    stored.mtime.encode(encoder)
    return encoder.getvalue()


@handles(OpCode.ASSERT_VER)
def assert_ver(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Require the object's version; ERANGE: the given one is lower; EOVERFLOW: it is higher."""
    wanted = op.args["ver"]
    if not wanted:
        raise OpError(errno.EINVAL)
    if wanted != work.user_version:
        raise OpError(errno.ERANGE if wanted < work.user_version else errno.EOVERFLOW)


@handles(OpCode.CMPEXT)
def cmpext(work: Work, op: OsdOp, given: dict[str, Any]) -> None:
    """Compare the data with the input; the error number is 4095 plus the offset of the first difference."""
    wanted = given["data"]
    found = _data_of(work)[op.args["offset"] :][: len(wanted)].ljust(len(wanted), b"\0")
    if found != wanted:
        place = next(place for place, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b)
        raise OpError(_MAX_ERRNO + place)


@handles(OpCode.CHECKSUM)
def checksum(work: Work, op: OsdOp, given: dict[str, Any]) -> bytes:
    """Return the CRC-32C of each chunk of a part of the data; empty, without a count, if the part is empty."""
    if op.args["type"] != _CRC32C:
        raise OpError(errno.EOPNOTSUPP if op.args["type"] in _XXHASHES else errno.EINVAL)
    stored = work.existing()
    if len(given["init_value"]) < _CRC_BYTES or (op.args["chunk_size"] and not op.args["length"]):
        raise OpError(errno.EINVAL)
    data = _extent(op, stored.data)
    if not data:
        return b""
    size = op.args["chunk_size"] or len(data)
    if len(data) % size:
        raise OpError(errno.EINVAL)
    seed = int.from_bytes(given["init_value"][:_CRC_BYTES], "little")
    encoder = Encoder()
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    encoder.sequence(chunks, lambda chunk: encoder.u32(crc32c(chunk, seed)))
    return encoder.getvalue()


@handles(OpCode.WRITE)
def write(work: Work, op: OsdOp, given: dict[str, Any]) -> None:
    """Overwrite a part of the data."""
    work.change(data=_overwritten(_data_of(work), op.args["offset"], given["data"]))


@handles(OpCode.WRITEFULL)
def writefull(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Replace the data."""
    work.change(data=given["data"])


@handles(OpCode.WRITESAME)
def writesame(work: Work, op: OsdOp, given: dict[str, Any]) -> None:
    """Overwrite a part of the data with repetitions of a piece."""
    length, piece = op.args["length"], given["data"]
    if not piece or length % len(piece):
        raise OpError(errno.EINVAL)
    if op.args["offset"] + length > OBJECT_BYTES:
        raise OpError(errno.EFBIG)
    work.change(data=_overwritten(_data_of(work), op.args["offset"], piece * (length // len(piece))))


@handles(OpCode.APPEND)
def append(work: Work, _op: OsdOp, given: dict[str, Any]) -> None:
    """Write after the end."""
    work.change(data=_data_of(work) + given["data"])


@handles(OpCode.TRUNCATE)
def truncate(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Cut the data to a size, or extend it with zeros; no effect without an object; EFBIG: it is too large."""
    size_bytes = op.args["offset"]
    if size_bytes >= OBJECT_BYTES:
        raise OpError(errno.EFBIG)
    if work.draft is not None:
        work.change(data=work.draft.data[:size_bytes].ljust(size_bytes, b"\0"))


@handles(OpCode.ZERO)
def zero(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Overwrite a part of the data with zeros; the data does not grow."""
    if work.draft is not None:
        start = op.args["offset"]
        length = max(0, min(op.args["length"], len(work.draft.data) - start))
        work.change(data=_overwritten(work.draft.data, start, bytes(length)) if length else work.draft.data)


@handles(OpCode.CREATE)
def create(work: Work, op: OsdOp, _given: dict[str, Any]) -> None:
    """Create the object; EEXIST: with EXCL, it exists."""
    if work.draft is not None:
        if op.flags & OpFlag.EXCL:
            raise OpError(errno.EEXIST)
        return
    work.change()


@handles(OpCode.DELETE)
def delete(work: Work, _op: OsdOp, _given: dict[str, Any]) -> None:
    """Remove the object."""
    work.existing()
    work.remove()


@handles(OpCode.SETALLOCHINT)
def set_alloc_hint(work: Work, _op: OsdOp, _given: dict[str, Any]) -> None:
    """Create the object, as Ceph's OSD does; hints have no effect in memory."""
    if work.draft is None:
        work.change()
