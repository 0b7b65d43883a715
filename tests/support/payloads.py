"""Values of payloads and their parts, drawn by the types of their fields.

A new payload has tests without further code, except for relations between its fields, which are in ``EXPLICIT``.
"""

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from hypothesis import strategies as st

from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddrVec, EntityAddr
from messenger.denc.codec import Encoder
from messenger.denc.layout import Kind
from messenger.denc.utime import UTime
from messenger.messages.auth import OptionalEpoch
from messenger.messages.fsmap import MdsMapBlob
from messenger.messages.layout import Addrs, Codec, Enveloped, Paxos, RawEnvelope, Rest
from messenger.messages.mds_cache import OptionalText
from messenger.messages.mds_caps import CapOp, CapsFile, CapsHead, CapsMoved, CapsPeer, MClientCaps
from messenger.messages.mds_client import MClientRequest, RequestHead
from messenger.messages.mds_metrics import METRICS, ClientMetric
from messenger.messages.mds_recovery import AlternateName
from messenger.messages.mds_session import MClientSnap
from messenger.messages.mdsmap import MDSMap, MdsState, MMDSBeacon
from messenger.messages.monmap import MonFeature, MonInfo, MonMap
from messenger.messages.nvmeof import BeaconSubsystem, BeaconSubsystems
from messenger.messages.osd_ec import EcReadReply
from messenger.messages.osd_objects import NO_VERSION
from messenger.messages.osd_ping import MOSDPing
from messenger.messages.osd_repop import LogEntries, LogOp, PgLogEntry
from messenger.messages.pg_info import CleanRegions
from messenger.messages.pg_log import MissingItem
from messenger.messages.pool import ShardSet
from tests.support.osd_payloads import OSD_PAYLOADS

Strategy = st.SearchStrategy[Any]

FEW = 3
SMALL = st.integers(0, 127)
"""Fits every integer there is on the wire."""


def signed(bits: int) -> Strategy:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def unsigned(bits: int) -> Strategy:
    return st.integers(0, 2**bits - 1)


utimes = st.builds(UTime, unsigned(32), unsigned(32))
addrs = st.sampled_from(["v2:10.0.0.1:1/2", "v1:[fd00::1]:3", "any:1.2.3.4:0/9", "-"]).map(EntityAddr.parse)
addrvecs = st.lists(addrs, max_size=FEW).map(lambda chosen: AddrVec(tuple(chosen)))
texts = st.text(max_size=8)
blobs = st.binary(max_size=12)
raw_envelopes = st.tuples(SMALL, blobs).map(
    lambda parts: bytes([parts[0], 1]) + len(parts[1]).to_bytes(4, "little") + parts[1]
)

BY_ENCODER: dict[Any, Strategy] = {
    Encoder.u8: unsigned(8),
    Encoder.u16: unsigned(16),
    Encoder.u32: unsigned(32),
    Encoder.u64: unsigned(64),
    Encoder.i8: signed(8),
    Encoder.i16: signed(16),
    Encoder.i32: signed(32),
    Encoder.i64: signed(64),
    Encoder.f32: st.floats(width=32, allow_nan=False),
    Encoder.f64: st.floats(allow_nan=False),
    Encoder.boolean: st.booleans(),
    Encoder.blob: blobs,
}
BY_CODEC = {
    id(hint.__metadata__[0]): strategy
    for hint, strategy in (
        (Paxos, unsigned(64)),
        (Addrs, addrvecs),
        (Rest, blobs),
        (OptionalEpoch, unsigned(32)),
        (RawEnvelope, raw_envelopes),
        (MonFeature, unsigned(64)),
        (ShardSet, st.sets(SMALL, max_size=FEW)),
        (AlternateName, texts),
        (OptionalText, texts),
    )
}
BY_TYPE: dict[Any, Strategy] = {
    int: SMALL,
    bool: st.booleans(),
    str: texts,
    bytes: blobs,
    UUID: st.uuids(),
    UTime: utimes,
    EntityAddr: addrs,
    AddrVec: addrvecs,
    CryptoKey: st.builds(CryptoKey, st.just(1), st.binary(min_size=16, max_size=16), utimes),
}


def values_of(hint: Any) -> Strategy:
    """Values of a type, as the layouts of payloads use them."""
    if get_origin(hint) is Annotated:
        return _annotated(hint)
    if hint in EXPLICIT:
        return EXPLICIT[hint]
    if hint in BY_TYPE:
        return BY_TYPE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*(st.none() if part is NoneType else values_of(part) for part in arguments))
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=FEW)
    if origin is set:
        return st.sets(values_of(arguments[0]), max_size=FEW)
    if origin is dict:
        return st.dictionaries(*map(values_of, arguments), max_size=FEW)
    if origin is tuple:
        return st.tuples(*map(values_of, (part for part in arguments if part is not ...)))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if is_dataclass(hint):
        return structures_of(hint)
    raise TypeError(f"no values of {hint} are known: give some in EXPLICIT")


def structures_of(structure: Any, **chosen: Strategy) -> Strategy:
    """Values of a dataclass, some fields' chosen by the caller; structures are written as the newest version."""
    hints = get_type_hints(structure, include_extras=True)
    skipped = {item.name for item in fields(Enveloped)} if issubclass(structure, Enveloped) else set()
    names = [item.name for item in fields(structure) if item.init and item.name not in skipped]
    return st.builds(
        structure, **{name: chosen[name] if name in chosen else values_of(hints[name]) for name in names}
    )


def _annotated(hint: Any) -> Strategy:
    for note in hint.__metadata__:
        if isinstance(note, Codec):
            # a codec that has no name here is one for a fixed number of bytes
            fixed = st.binary(min_size=note.size_bytes, max_size=note.size_bytes)
            return BY_CODEC.get(id(note), fixed)
        if isinstance(note, Kind) and note.encode in BY_ENCODER:
            return BY_ENCODER[note.encode]
    return values_of(hint.__origin__)


def _monmaps() -> Strategy:
    """Every rank needs a monitor."""
    names = ("a", "b", "c")
    infos = st.fixed_dictionaries({name: structures_of(MonInfo, name=st.just(name)) for name in names})
    return structures_of(MonMap, mon_info=infos, ranks=st.permutations(names))


def _requests() -> Strategy:
    """The head counts the releases."""
    head = structures_of(RequestHead, version=st.just(3))
    return structures_of(MClientRequest, head=head).map(
        lambda request: replace(request, head=replace(request.head, num_releases=len(request.releases)))
    )


def _beacons() -> Strategy:
    """System information goes with state BOOT."""
    return structures_of(MMDSBeacon).map(
        lambda beacon: replace(beacon, state=MdsState.BOOT if beacon.sys_info else beacon.state & 15)
    )


def _log_entries() -> Strategy:
    """Draw log entries: the op and the other requests determine the fields of an entry."""

    def consistent(entry: PgLogEntry) -> PgLogEntry:
        return replace(
            entry,
            reverted=entry.reverted if entry.op == LogOp.LOST_REVERT else NO_VERSION,
            error=entry.error if entry.op == LogOp.ERROR else 0,
            return_code=0 if entry.op == LogOp.ERROR else entry.return_code,
            extra_return_codes=entry.extra_return_codes if entry.extra_reqids else {},
        )

    return structures_of(PgLogEntry, op=st.sampled_from(LogOp).map(int)).map(consistent)


def _caps() -> Strategy:
    """The operation decides which fields there are, and the head has the length of the snapshots."""

    def consistent(caps: MClientCaps) -> MClientCaps:
        op = caps.head.op
        moves = op in {CapOp.EXPORT, CapOp.IMPORT}
        return replace(
            caps,
            head=replace(caps.head, snap_trace_bytes=len(caps.snap_trace)),
            file=CapsFile() if moves else caps.file,
            moved=caps.moved if moves else CapsMoved(),
            peer=caps.peer if op == CapOp.IMPORT else CapsPeer(),
        )

    head = structures_of(CapsHead, op=st.sampled_from(CapOp).map(int))
    return structures_of(MClientCaps, head=head).map(consistent)


def _snaps() -> Strategy:
    """The head has the lengths of what follows."""
    return structures_of(MClientSnap).map(
        lambda snap: replace(
            snap,
            head=replace(
                snap.head,
                num_split_inos=len(snap.split_inos),
                num_split_realms=len(snap.split_realms),
                trace_bytes=len(snap.trace),
            ),
        )
    )


def _metrics() -> Strategy:
    """The type decides which value there is; that of an unknown type is an envelope."""
    kinds = {kind: values_of(METRICS[kind]) for kind in METRICS} | {len(METRICS): raw_envelopes}
    return st.one_of(*(st.builds(ClientMetric, st.just(kind), value) for kind, value in kinds.items()))


EXPLICIT: dict[Any, Strategy] = dict(OSD_PAYLOADS)
"""Values of types whose fields depend on each other."""
EXPLICIT[PgLogEntry] = _log_entries()
BY_CODEC[id(LogEntries.__metadata__[0])] = st.lists(values_of(PgLogEntry), max_size=FEW)
BY_CODEC[id(BeaconSubsystems.__metadata__[0])] = st.lists(values_of(BeaconSubsystem), max_size=FEW)
BY_CODEC[id(MdsMapBlob.__metadata__[0])] = structures_of(MDSMap)
EXPLICIT[MonMap] = _monmaps()
EXPLICIT[MClientRequest] = _requests()
EXPLICIT[MMDSBeacon] = _beacons()
EXPLICIT[MClientCaps] = _caps()
EXPLICIT[MClientSnap] = _snaps()
EXPLICIT[ClientMetric] = _metrics()
EXPLICIT[EcReadReply] = structures_of(EcReadReply, buffers_read=st.just([]))
EXPLICIT[MissingItem] = structures_of(MissingItem, clean_regions=values_of(CleanRegions))
EXPLICIT[MOSDPing] = structures_of(MOSDPing, pad_bytes=st.integers(0, 40))
