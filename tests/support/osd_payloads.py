"""Strategies for messages between clients and OSDs whose types alone do not determine valid values."""

from hypothesis import strategies as st

from messenger.denc.features import ALL_FEATURES
from messenger.denc.utime import UTime
from messenger.messages.osd_objects import (
    EVersion,
    HObject,
    ObjectLocator,
    PgId,
    RequestId,
    RequestRedirect,
    ShardedPgId,
)
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OPERATIONS, OpCode, OsdOp

u8, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32, 64))
i8, i32, i64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 32, 64))
texts = st.text(max_size=12)

pg_ids = st.builds(PgId, u64, u32)
sharded_pg_ids = st.builds(ShardedPgId, pg_ids, i8)
locators = st.builds(ObjectLocator, pool=i64, key=texts, nspace=texts, hash=i64)
hobjects = st.builds(HObject, texts, texts, u64, u32, st.booleans(), texts, i64)
eversions = st.builds(EVersion, u64, u32)
request_ids = st.builds(RequestId, u8, i64, u64, i32)
redirects = st.builds(RequestRedirect, locators, texts)
utimes = st.builds(UTime, u32, u32)


@st.composite
def osd_ops(draw: st.DrawFn) -> OsdOp:
    """Any operation with any arguments; a value of 8 bits fits every field."""
    code = draw(st.sampled_from(OpCode))
    args = {name: draw(u8) for name in OPERATIONS[code].view.fields}
    return OsdOp(code, args, draw(u32), draw(u32))


op_lists = st.lists(osd_ops(), max_size=3)


@st.composite
def replies(draw: st.DrawFn) -> MOSDOpReply:
    """A reply with a return value for each of its operations."""
    ops = draw(op_lists)
    values = draw(st.lists(i32, min_size=len(ops), max_size=len(ops)))
    parts = st.tuples(texts, pg_ids, u64, i32, u32, st.just(ops), st.just(values), i32, eversions, u64, eversions)
    return MOSDOpReply(*draw(parts), draw(st.none() | redirects))


OSD_PAYLOADS = {
    MOSDOp: st.builds(
        MOSDOp,
        pgid=sharded_pg_ids,
        hash=u32,
        osdmap_epoch=u32,
        flags=u32,
        locator=locators,
        oid=texts,
        ops=op_lists,
        mtime=utimes,
        retry_attempt=i32,
        snapid=u64,
        snap_seq=u64,
        snaps=st.lists(u64, max_size=3),
        reqid=request_ids,
        client_inc=u32,
        features=st.just(ALL_FEATURES),
    ),
    MOSDOpReply: replies(),
}
"""By payload class; requests as a connection with all features would carry them."""
