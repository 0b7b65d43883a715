"""Captures of real daemons: every frame is known, right, and built again as it was."""

from pathlib import Path

import pytest
from scapy.fields import RawVal
from scapy.packet import Packet

from toolkit.dissect.layers import MSGR_Gap, MSGR_Link, MSGR_Unknown, read_frames
from toolkit.dissect.layers.layer import Layer

CAPTURES = sorted((Path(__file__).parents[4] / "captures").glob("*/capture.pcapng.gz"))


def layers_of(packet: Packet) -> list[Packet]:
    """The layers of a frame, those inside sealed and compressed ones too."""
    found = [layer for layer in packet.iterpayloads() if isinstance(layer, Layer)]
    opened = [layer.fields["opened"] for layer in found if layer.fields.get("opened") is not None]
    return found + [inner for frame in opened for inner in layers_of(frame)]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.parent.name)
def test_a_capture(capture: Path) -> None:
    frames = list(read_frames(capture, capture.parent.glob("keyring*")))
    assert frames
    for frame in frames:
        if MSGR_Gap in frame or MSGR_Unknown in frame:
            assert frame[MSGR_Link].error
            continue
        content = frame[MSGR_Link].payload
        raw = bytes(content)
        assert bytes(type(content)(raw)) == raw
        for layer in layers_of(frame):
            assert not any(isinstance(value, RawVal) for value in layer.fields.values()), layer.show(dump=True)
            assert getattr(layer, "crc_ok", True) or frame[MSGR_Link].crc == "bad"
        assert frame.summary().startswith("IP")
