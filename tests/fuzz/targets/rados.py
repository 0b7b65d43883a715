"""Structures that clients of OSDs read: CRUSH maps and the placements they give, and the data of operations.

See docs/protocol.md §6.4, §6.8.

An input of ``crush`` is a CRUSH map. One of ``osd-data`` is an operation without the length of its data
(34 bytes), and its data segment.
"""

from collections.abc import Iterator
from contextlib import suppress

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError, LocalError
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_op_data import input_of, operation, output_of
from messenger.messages.osd_op_reply import MOSDOpReply
from messenger.messages.osd_operations import OpCode, OsdOp, split_data
from messenger.messages.osdmap import OSDMap
from messenger.messages.registry import decode_payload
from tests.fuzz.seeds import captured_files, captured_messages
from tests.fuzz.target import KIB, BrokenPromise, Cursor, Target, require_same
from toolkit.rados.crush import do_rule
from toolkit.rados.crush_map import ITEM_NONE, CrushMap

_MOST_TRIES = 60
"""Choices are made by maps that do not ask for more tries: they are how long a choice may take."""
_REPLICAS = 3
_ARGS_SIZE = 28
_FLAGS_SIZE = 4


def run_crush(data: bytes) -> None:
    """Read a map, write it, and let its rules choose."""
    try:
        crush = CrushMap.decode(data)
    except DecodeError:
        return
    encoder = Encoder()
    crush.encode(encoder)
    require_same(
        "the map that was encoded, and the one that came back", CrushMap.decode(encoder.getvalue()), crush
    )
    knobs = crush.tunables
    if max(knobs.choose_total_tries, knobs.choose_local_tries, knobs.choose_local_fallback_tries) > _MOST_TRIES:
        return
    for rule_id, rule in list(crush.rules.items())[:2]:
        if any(abs(value) > _MOST_TRIES for step in rule.steps for value in (step.arg1, step.arg2)):
            continue
        for x in range(3):
            _check_choice(crush, rule_id, x)


def _check_choice(crush: CrushMap, rule_id: int, x: int) -> None:
    try:
        chosen = do_rule(crush, rule_id, x, _REPLICAS, [0x10000] * 4)
    except LocalError:
        return
    if len(chosen) > _REPLICAS or not all(isinstance(item, int) for item in chosen):
        raise BrokenPromise(f"rule {rule_id} chooses {chosen} for {x}")
    devices = [item for item in chosen if item != ITEM_NONE and item >= 0]
    require_same("devices, and devices without repetition", len(set(devices)), len(devices))


def crush_seeds() -> Iterator[bytes]:
    """The CRUSH maps in captured OSD maps."""
    maps = (OSDMap.decode(raw).crush for raw in captured_files("*full*.bin") + captured_files("osdmap*.bin"))
    yield from sorted({bytes(crush) for crush in maps}, key=len)[:4]


def run_osd_data(data: bytes) -> None:
    """Read what an operation takes and gives; build the operation again from its input."""
    cursor = Cursor(data)
    head = cursor.take(2 + _FLAGS_SIZE + _ARGS_SIZE).ljust(2 + _FLAGS_SIZE + _ARGS_SIZE, b"\0")
    segment = cursor.rest()
    op = OsdOp.decode(Decoder(head + len(segment).to_bytes(4, "little")))
    split_data([op], segment)
    with suppress(DecodeError):
        repr(output_of(op))
    try:
        values = input_of(op)
    except DecodeError:
        return
    if not isinstance(op.code, OpCode):
        return
    for made_before in (False, True):
        made = operation(op.code, *values.values(), op_flags=op.flags, **op.args)
        if made_before:  # then what has an order is in it
            require_same("the input of an operation, and of one made of it", input_of(made), values)
        values = input_of(made)


def osd_data_seeds() -> Iterator[bytes]:
    """The operations in captured messages, and every code over zeros."""
    for message in captured_messages():
        payload = decode_payload(message, 0) if message.type in (MOSDOp.TYPE, MOSDOpReply.TYPE) else None
        if isinstance(payload, MOSDOp | MOSDOpReply):
            split_data(payload.ops, message.data)
            for op in payload.ops:
                encoder = Encoder()
                op.encode(encoder)
                yield encoder.getvalue()[:-4] + bytes(op.data)
    for code in OpCode:
        yield code.to_bytes(2, "little") + bytes(_FLAGS_SIZE + _ARGS_SIZE + 8)


TARGETS = (
    Target(
        name="crush", run=run_crush, seeds=crush_seeds, allowance_bytes=1024 * KIB, mutations=150, max_bytes=1500
    ),
    Target(name="osd-data", run=run_osd_data, seeds=osd_data_seeds, label=lambda data: data[:2], max_bytes=300),
)
