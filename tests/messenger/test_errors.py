"""The text of a fault: one clear line, for every content from the peer."""

import pytest

from messenger.errors import AuthError, DecodeError, Fault, FaultError, FaultReason, PeerError


def test_fault_has_reason_place_and_detail() -> None:
    assert str(Fault(FaultReason.EOF)) == "peer closed the connection"
    assert str(Fault(FaultReason.EOF, state="READY")) == "peer closed the connection in READY"
    assert str(Fault(FaultReason.OVERSIZE, "9 bytes", "READY")) == "frame larger than the limit in READY: 9 bytes"
    assert str(FaultError(Fault(FaultReason.REFUSED, "h:1"))) == "connection refused: h:1"


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\r\n", "two\\nlines\\r\\n"),
        ("tab\there", "tab\\there"),
        ("escape \x1b[31m", "escape \\x1b[31m"),
        ("half \udcff", "half \\udcff"),
        ("ünïcode", "ünïcode"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
        ("\n" * 10**6, "\\n" * 100 + "..."),
    ],
    ids=range(9),
)
def test_error_detail_is_one_printable_line_of_bounded_length(detail: str, shown: str) -> None:
    for error in DecodeError(detail), PeerError(FaultReason.MALFORMED, detail):
        assert error.detail == shown
        assert str(error) == f"malformed payload: {shown}"
        assert str(error).isprintable()


def test_errors_carry_their_reason() -> None:
    assert PeerError(FaultReason.EOF).reason is FaultReason.EOF
    assert str(PeerError(FaultReason.EOF)) == "peer closed the connection"
    assert DecodeError("x").reason is FaultReason.MALFORMED
    error = AuthError(FaultReason.AUTH_BUSY, "wait", errno=16)
    assert (error.reason, error.errno) == (FaultReason.AUTH_BUSY, 16)
