"""The table of operations: codes, layouts, and what may be asked for."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Decoder, Encoder
from messenger.errors import DecodeError, LocalError
from messenger.messages.osd_objects import HObject
from messenger.messages.osd_op_data import input_of, operation, output_of
from messenger.messages.osd_operations import OP_SIZE, OPERATIONS, Mode, OpCode, OsdOp
from tests.support.osd_payloads import osd_ops
from tests.support.refusals import read_or_refused


def image(op: OsdOp) -> bytes:
    encoder = Encoder()
    op.encode(encoder)
    return encoder.getvalue()


def test_every_code_has_a_row():
    assert set(OPERATIONS) == set(OpCode)


@pytest.mark.parametrize(
    ("op", "union"),
    [
        (
            operation(OpCode.READ, offset=1, length=2, truncate_size=3, truncate_seq=4),
            "0100000000000000 0200000000000000 0300000000000000 04000000",
        ),
        (operation(OpCode.SETXATTR, "name", b"va"), "04000000 02000000"),
        (operation(OpCode.CALL, "lock", "info", b"xyz"), "04 04 00 03000000"),
        (
            operation(OpCode.WATCH, cookie=1, op=3, gen=2, timeout=9),
            "0100000000000000 0000000000000000 03 02000000 09000000",
        ),
        (operation(OpCode.PGNLS, HObject(), count=5, start_epoch=6), "0500000000000000 06000000"),
        (operation(OpCode.ROLLBACK, snapid=7), "0700000000000000"),
        (operation(OpCode.ASSERT_VER, ver=8), "0000000000000000 0800000000000000"),
    ],
)
def test_layouts(op, union):
    assert image(op)[6:34].hex() == union.replace(" ", "").ljust(56, "0")


@given(osd_ops())
def test_roundtrip_and_truncation(op):
    encoded = image(op)
    assert len(encoded) == OP_SIZE
    assert OsdOp.decode(Decoder(encoded)) == op
    for size in range(OP_SIZE):
        with pytest.raises(DecodeError):
            OsdOp.decode(Decoder(encoded[:size]))


@given(st.binary(min_size=OP_SIZE, max_size=OP_SIZE))
def test_any_38_bytes_are_an_operation(encoded):
    op = OsdOp.decode(Decoder(encoded))
    if op.code not in OPERATIONS:
        assert image(op) == encoded
        assert op.name == f"0x{op.code:04x}"


@given(st.sampled_from(OpCode), st.binary(max_size=60), st.integers(0, 70))
def test_any_data_decodes_or_is_refused(code, data, length):
    args = dict.fromkeys(OPERATIONS[code].view.fields, length)
    op = OsdOp(code, args, 0, len(data), data)
    for read in (input_of, output_of):
        values = read_or_refused(lambda read=read: read(op), DecodeError)
        assert values is None or isinstance(values, dict)


def test_data_of_unknown_operations_stays_bytes():
    assert input_of(OsdOp(0x1FFF, data=b"x")) == {"data": b"x"}


def test_modes():
    assert operation(OpCode.STAT).mode == Mode.READ
    assert operation(OpCode.DELETE).mode == Mode.WRITE


@pytest.mark.parametrize(
    ("code", "values", "args", "message"),
    [
        (OpCode.STAT, (1,), {}, "STAT takes 0 values"),
        (OpCode.SETXATTR, ("name",), {}, "SETXATTR takes 2 values"),
        (OpCode.OMAPSETVALS, (5,), {}, "values is to be map<string,bl>, not 5"),
        (OpCode.OMAPGETKEYS, ("", -1.5), {}, "max is to be u64"),
        (OpCode.GETXATTR, (b"bytes",), {}, "name is to be text"),
    ],
)
def test_input_that_does_not_fit(code, values, args, message):
    with pytest.raises(LocalError, match=message.replace("(", r"\(")):
        operation(code, *values, **args)


@pytest.mark.parametrize(
    ("args", "message"),
    [({"color": 1}, "extent view has no color"), ({"offset": -1}, "arguments of the extent view")],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(LocalError, match=message):
        image(operation(OpCode.READ, **args))


def test_the_codes_are_those_of_the_protocol():
    """The table of operations in docs/protocol.md is the source of the codes."""
    text = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z_]+) \| (0x[0-9a-fA-F]{4}) \|", text, re.MULTILINE)
    codes = {name: int(code, 16) for name, code in rows}
    assert {op.name: op.value for op in OpCode}.items() <= codes.items()
