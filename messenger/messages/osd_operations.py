"""Operations on objects: ceph_osd_op, and the table of all operations of clients (docs/protocol.md §6.4.1).

An operation is 38 bytes in the front of MOSDOp or MOSDOpReply, and its input or output in the data segment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cached_property
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Annotated, Self

from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.errors import DecodeError, LocalError
from messenger.messages.layout import Bits

OP_SIZE = 38
_UNION_SIZE = 28
_HEAD = Struct("<HI")
_TAIL = Struct("<I")


@dataclass(frozen=True)
class View:
    """Layout of the 28 bytes of the union for some operations; unused bytes are zero."""

    name: str
    fields: tuple[str, ...]
    layout: str
    """Format in the notation of the struct module, little-endian and packed."""

    @cached_property
    def _struct(self) -> Struct:
        used = Struct("<" + self.layout).size
        return Struct(f"<{self.layout}{_UNION_SIZE - used}x")

    def complete(self, args: Mapping[str, int]) -> dict[str, int]:
        """All arguments of this view; missing ones are 0.

        Raises:
            LocalError: this view does not have one of the arguments.
        """
        unknown = args.keys() - set(self.fields)
        if unknown:
            raise LocalError(f"the {self.name} view has no {', '.join(sorted(unknown))}; it has: {self.fields}")
        return {name: args.get(name, 0) for name in self.fields}

    def pack(self, args: Mapping[str, int]) -> bytes:
        """Encode the union; missing arguments are 0.

        Raises:
            LocalError: an argument does not fit.
        """
        try:
            return self._struct.pack(*(args.get(name, 0) for name in self.fields))
        except StructError as error:
            raise LocalError(f"arguments of the {self.name} view: {error}") from None

    def unpack(self, union: Buffer) -> dict[str, int]:
        """Decode the 28 bytes of the union."""
        return dict(zip(self.fields, self._struct.unpack(union), strict=True))


NO_ARGS = View("no", (), "")
EXTENT = View("extent", ("offset", "length", "truncate_size", "truncate_seq"), "QQQI")
XATTR = View("xattr", ("name_len", "value_len", "cmp_op", "cmp_mode"), "IIBB")
CLS = View("cls", ("class_len", "method_len", "argc", "indata_len"), "BBBI")
PGLS = View("pgls", ("count", "start_epoch"), "QI")
SNAP = View("snap", ("snapid",), "Q")
WATCH = View("watch", ("cookie", "ver", "op", "gen", "timeout"), "QQBII")
NOTIFY = View("notify", ("cookie",), "Q")
ASSERT_VER = View("assert_ver", ("unused", "ver"), "QQ")
COPY_FROM = View("copy_from", ("snapid", "src_version", "flags", "src_fadvise_flags"), "QQBI")
ALLOC_HINT = View("alloc_hint", ("expected_object_size", "expected_write_size", "flags"), "QQI")
WRITESAME = View("writesame", ("offset", "length", "data_length"), "QQQ")
CHECKSUM = View("checksum", ("offset", "length", "chunk_size", "type"), "QQIB")
_UNKNOWN = View("unknown", tuple(f"word_{n}" for n in range(7)), "7I")


class Mode(IntFlag):
    """Kind of access, in the high bits of an operation's code."""

    READ = 0x1000
    WRITE = 0x2000


class OpCode(IntEnum):
    """Codes of the operations of clients: mode, type and number."""

    READ = 0x1201
    STAT = 0x1202
    MAPEXT = 0x1203
    SPARSE_READ = 0x1205
    NOTIFY = 0x1206
    NOTIFY_ACK = 0x1207
    ASSERT_VER = 0x1208
    LIST_WATCHERS = 0x1209
    LIST_SNAPS = 0x120A
    OMAPGETKEYS = 0x1211
    OMAPGETVALS = 0x1212
    OMAPGETHEADER = 0x1213
    OMAPGETVALSBYKEYS = 0x1214
    OMAP_CMP = 0x1219
    CHECKSUM = 0x121F
    CMPEXT = 0x1220
    GETXATTR = 0x1301
    GETXATTRS = 0x1302
    CMPXATTR = 0x1303
    CALL = 0x1401
    PGLS = 0x1501
    PGNLS = 0x1505
    WRITE = 0x2201
    WRITEFULL = 0x2202
    TRUNCATE = 0x2203
    ZERO = 0x2204
    DELETE = 0x2205
    APPEND = 0x2206
    CREATE = 0x220D
    ROLLBACK = 0x220E
    WATCH = 0x220F
    OMAPSETVALS = 0x2215
    OMAPSETHEADER = 0x2216
    OMAPCLEAR = 0x2217
    OMAPRMKEYS = 0x2218
    COPY_FROM = 0x221A
    SETALLOCHINT = 0x2223
    WRITESAME = 0x2226
    OMAPRMKEYRANGE = 0x222C
    SETXATTR = 0x2301
    RMXATTR = 0x2304


class OpFlag(IntFlag):
    """Bits of :attr:`OsdOp.flags`."""

    EXCL = 0x1
    """Of CREATE: the object must not exist."""
    FAILOK = 0x2
    """If this operation fails, the ones after it are still executed."""
    FADVISE_RANDOM = 0x4
    FADVISE_SEQUENTIAL = 0x8
    FADVISE_WILLNEED = 0x10
    FADVISE_DONTNEED = 0x20
    FADVISE_NOCACHE = 0x40
    WITH_REFERENCE = 0x80


class RequestFlag(IntFlag):
    """Bits of :attr:`MOSDOp.flags` and :attr:`MOSDOpReply.flags`."""

    ACK = 0x1
    ONNVRAM = 0x2
    ONDISK = 0x4
    """Reply when the change is safe; without it a write gets no reply at all."""
    RETRY = 0x8
    READ = 0x10
    WRITE = 0x20
    ORDERSNAP = 0x40
    BALANCE_READS = 0x100
    PARALLELEXEC = 0x200
    PGOP = 0x400
    EXEC = 0x800
    LOCALIZE_READS = 0x2000
    RWORDERED = 0x4000
    IGNORE_CACHE = 0x8000
    SKIPRWLOCKS = 0x10000
    IGNORE_OVERLAY = 0x20000
    FLUSH = 0x40000
    MAP_SNAP_CLONE = 0x80000
    ENFORCE_SNAPC = 0x100000
    REDIRECTED = 0x200000
    KNOWN_REDIR = 0x400000
    """The client follows redirects."""
    FULL_TRY = 0x800000
    FULL_FORCE = 0x1000000
    IGNORE_REDIRECT = 0x2000000
    RETURNVEC = 0x4000000
    """The reply may contain data of writing operations."""
    SUPPORTSPOOLEIO = 0x8000000


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table: contents of the union and of both data segments.

    Segments are lists of ``KIND NAME``, separated by semicolons; ``osd_op_data.py`` encodes and decodes them.
    """

    view: View = NO_ARGS
    indata: str = ""
    outdata: str = ""
    length_arg: str = ""
    """Field of the view with the length of the input, less the parts whose length is in other fields."""


OPERATIONS: Mapping[OpCode, Operation] = {
    OpCode.READ: Operation(EXTENT, "", "bytes data"),
    OpCode.STAT: Operation(NO_ARGS, "", "u64 size; utime mtime"),
    OpCode.MAPEXT: Operation(EXTENT, "", "map<u64,u64> extents"),
    OpCode.SPARSE_READ: Operation(EXTENT, "", "map<u64,u64> extents; bl data"),
    OpCode.NOTIFY: Operation(NOTIFY, "u32 version; u32 timeout_s; bl payload", "u64 notify_id"),
    OpCode.NOTIFY_ACK: Operation(NO_ARGS, "u64 notify_id; u64 cookie; bl reply"),
    OpCode.ASSERT_VER: Operation(ASSERT_VER),
    OpCode.LIST_WATCHERS: Operation(NO_ARGS, "", "obj_list_watch_response_t watchers"),
    OpCode.LIST_SNAPS: Operation(NO_ARGS, "", "bytes obj_list_snap_response_t"),
    OpCode.OMAPGETKEYS: Operation(
        EXTENT, "string start_after; u64 max", "set<string> keys; bool truncated", "length"
    ),
    OpCode.OMAPGETVALS: Operation(
        EXTENT,
        "string start_after; u64 max; string filter_prefix",
        "map<string,bl> values; bool truncated",
        "length",
    ),
    OpCode.OMAPGETHEADER: Operation(NO_ARGS, "", "bytes header"),
    OpCode.OMAPGETVALSBYKEYS: Operation(EXTENT, "set<string> keys", "map<string,bl> values", "length"),
    OpCode.OMAP_CMP: Operation(EXTENT, "map<string,pair<bl,i32>> assertions", "", "length"),
    OpCode.CHECKSUM: Operation(CHECKSUM, "bytes init_value", "bytes checksums"),
    OpCode.CMPEXT: Operation(EXTENT, "bytes data", "", "length"),
    OpCode.GETXATTR: Operation(XATTR, "text[name_len] name", "bytes value"),
    OpCode.GETXATTRS: Operation(NO_ARGS, "", "map<string,bl> xattrs"),
    OpCode.CMPXATTR: Operation(XATTR, "text[name_len] name; bytes value", "", "value_len"),
    OpCode.CALL: Operation(
        CLS, "text[class_len] class; text[method_len] method; bytes input", "bytes output", "indata_len"
    ),
    OpCode.PGLS: Operation(PGLS, "hobject_t cursor", "bytes pg_ls_response_t"),
    OpCode.PGNLS: Operation(PGLS, "hobject_t cursor", "pg_nls_response_t listing"),
    OpCode.WRITE: Operation(EXTENT, "bytes data", "", "length"),
    OpCode.WRITEFULL: Operation(EXTENT, "bytes data", "", "length"),
    OpCode.TRUNCATE: Operation(EXTENT),
    OpCode.ZERO: Operation(EXTENT),
    OpCode.DELETE: Operation(),
    OpCode.APPEND: Operation(EXTENT, "bytes data", "", "length"),
    OpCode.CREATE: Operation(),
    OpCode.ROLLBACK: Operation(SNAP),
    OpCode.WATCH: Operation(WATCH),
    OpCode.OMAPSETVALS: Operation(EXTENT, "map<string,bl> values", "", "length"),
    OpCode.OMAPSETHEADER: Operation(EXTENT, "bytes header", "", "length"),
    OpCode.OMAPCLEAR: Operation(),
    OpCode.OMAPRMKEYS: Operation(EXTENT, "set<string> keys", "", "length"),
    OpCode.COPY_FROM: Operation(COPY_FROM, "string oid; object_locator_t locator"),
    OpCode.SETALLOCHINT: Operation(ALLOC_HINT),
    OpCode.WRITESAME: Operation(WRITESAME, "bytes data", "", "data_length"),
    OpCode.OMAPRMKEYRANGE: Operation(EXTENT, "string begin; string end", "", "length"),
    OpCode.SETXATTR: Operation(XATTR, "text[name_len] name; bytes value", "", "value_len"),
    OpCode.RMXATTR: Operation(XATTR, "text[name_len] name"),
}
"""The table of operations. Codes that are not in it keep their union as seven words."""

_BY_NUMBER = {int(code): (code, operation.view) for code, operation in OPERATIONS.items()}


@dataclass(slots=True)
class OsdOp:
    """One operation. ``osd_op_data.operation`` creates those to send."""

    code: int
    """An :class:`OpCode`, or the number of a code that is not in the table."""
    args: dict[str, int] = field(default_factory=dict)
    """Fields of the code's view."""
    flags: Annotated[int, Bits(OpFlag)] = 0
    """:class:`OpFlag` bits."""
    payload_len: int = 0
    """Number of bytes in the data segment: input in a request, output in a reply."""
    data: Buffer = field(default=b"", compare=False)
    """These bytes; for a received operation only after :func:`split_data`."""

    @property
    def name(self) -> str:
        """The name in :class:`OpCode`, or the number of an unknown code."""
        return self.code.name if isinstance(self.code, OpCode) else f"0x{self.code:04x}"

    @property
    def mode(self) -> Mode:
        """The kind of access: read, write or both."""
        return Mode(self.code & (Mode.READ | Mode.WRITE))

    def encode(self, encoder: Encoder) -> None:
        """Append the 38 bytes; raises LocalError for arguments that its view lacks."""
        encoder.raw(_HEAD.pack(self.code, self.flags))
        encoder.raw(_view(self.code)[1].pack(self.args))
        encoder.raw(_TAIL.pack(self.payload_len))

    @classmethod
    def decode(cls, decoder: Decoder) -> Self:
        """Decode the 38 bytes; raises DecodeError."""
        number, flags = decoder.u16(), decoder.u32()
        code, view = _view(number)
        args = view.unpack(decoder.raw(_UNION_SIZE))
        return cls(code, args, flags, decoder.u32())


def _view(number: int) -> tuple[int, View]:
    return _BY_NUMBER.get(number) or (number, _UNKNOWN)


def join_data(ops: Sequence[OsdOp]) -> Buffer:
    """The data segment of these operations, without a copy if only one of them has data."""
    parts = [op.data for op in ops if len(op.data)]
    return parts[0] if len(parts) == 1 else b"".join(parts)


def split_data(ops: Sequence[OsdOp], data: Buffer) -> None:
    """Assign to each received operation its part of the data segment, as a view.

    Raises:
        DecodeError: the parts do not add up to the segment.
    """
    expected = sum(op.payload_len for op in ops)
    if expected != len(data):
        raise DecodeError(f"operations claim {expected} bytes of data, {len(data)} came")
    view, start = memoryview(data), 0
    for op in ops:
        op.data = view[start : start + op.payload_len]
        start += op.payload_len
