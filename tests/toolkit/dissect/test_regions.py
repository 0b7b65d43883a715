"""The regions of frames as they are on the wire, in every form."""

from itertools import chain

import pytest

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import LocalError
from toolkit.dissect.follow import Form, SeenFrame
from toolkit.dissect.regions import position, regions_of, v1_header, with_crcs
from toolkit.faults.mangle import Mangle, Replace
from toolkit.faults.rewrites import with_fields
from toolkit.lab.sim.sim_lab import SimLab

OLD = {"msgr2_features": 0}
NO_NOSRCADDR = {"features_supported": CLIENT_FEATURES & ~Feature.NOSRCADDR}
FORMS = [("v2-crc", {}, Form.CRC), ("v2-secure", {}, Form.SECURE)]
FORMS += [("v2-crc", OLD, Form.REV0_CRC), ("v2-secure", OLD, Form.REV0_SECURE)]


def seen(way: str, tag: str, **options: object) -> SeenFrame:
    """A frame of a run as an observer with the keys sees it."""
    frames: list[SeenFrame] = []

    def keep(frame: SeenFrame) -> bytes:
        frames.append(frame)
        return frame.raw

    lab = SimLab(way)
    lab.mangle("a", "b", Mangle("a", tag, change=Replace(keep)))
    lab.two(**options)
    lab.send("a", "b", size_bytes=70, front_bytes=30, middle_bytes=5)
    lab.expect_delivered("a", "b", 1)
    return frames[0]


def sizes(frame: SeenFrame) -> dict[str, int]:
    """Bytes by region."""
    return {name: sum(map(len, ranges)) for name, ranges in regions_of(frame).items()}


MESSAGES = {
    Form.CRC: {"crc 0": 4, "epilogue": 13},
    Form.SECURE: {"padding": 7 + 2 + 11 + 10, "tag": 32, "epilogue": 16},
    Form.REV0_CRC: {"epilogue": 17},
    Form.REV0_SECURE: {"padding": 7 + 2 + 11 + 10, "tag": 16, "epilogue": 16},
}


@pytest.mark.parametrize(("way", "options", "form"), FORMS, ids=lambda value: str(value).replace(" ", "-"))
def test_a_message(way: str, options: dict[str, object], form: Form) -> None:
    frame = seen(way, "MESSAGE", **options)
    assert frame.form is form
    parts = {"preamble": 32, "segment 0": 41, "segment 1": 30, "segment 2": 5, "segment 3": 70}
    assert sizes(frame) == parts | MESSAGES[form]
    every_byte = sorted(chain(*chain(*regions_of(frame).values())))
    assert every_byte == list(range(len(frame.raw)))


def test_a_long_control_frame_is_sealed_in_two_operations() -> None:
    frame = seen("v2-secure", "CLIENT_IDENT")
    (inline, rest), (tag, last) = regions_of(frame)["segment 0"], regions_of(frame)["tag"]
    assert (inline.stop, tag, rest.start, last.stop) == (80, range(80, 96), 96, len(frame.raw))
    assert position(frame, "segment 0", 48) == 96
    assert position(frame, "tag", -1) == position(frame, "", -1) == len(frame.raw) - 1


def test_a_message_of_v1() -> None:
    frame = seen("v1", "MSG")
    assert sizes(frame) == {"tag": 1, "header": 53, "front": 30, "middle": 5, "data": 70, "footer": 21}


def test_a_message_of_v1_with_the_old_header() -> None:
    frame = seen("v1", "MSG", **NO_NOSRCADDR)
    assert sizes(frame) == {"tag": 1, "header": 334, "front": 30, "middle": 5, "data": 70, "footer": 21}
    changed = with_fields(frame, {"tid": "77", "data": "00"}).raw
    assert (v1_header(changed).tid, v1_header(changed).data_len, len(changed)) == (77, 1, len(frame.raw) - 69)


def test_the_banner() -> None:
    assert sizes(seen("v2-crc", "BANNER")) == {"prefix": 8, "length": 2, "features": 16}
    assert sizes(seen("v1", "BANNER")) == {"body": 9}


@pytest.mark.parametrize(("way", "options"), [("v2-crc", {}), ("v1", {}), ("v1", NO_NOSRCADDR)])
def test_recomputed_crcs_of_an_unchanged_frame_are_the_original_ones(way: str, options: dict[str, object]) -> None:
    frame = seen(way, "MSG" if way == "v1" else "MESSAGE", **options)
    raw = bytearray(frame.raw)
    for region in ("footer", "epilogue", "crc 0"):
        for part in regions_of(frame).get(region, ()):
            raw[part.start + 1 : part.start + 4] = b"xyz"
    assert raw != frame.raw
    with_crcs(frame, raw)
    assert raw == frame.raw


def test_sealed_frames_have_no_crcs() -> None:
    frame = seen("v2-secure", "MESSAGE")
    with pytest.raises(LocalError, match="sealed"):
        with_crcs(frame, bytearray(frame.raw))
