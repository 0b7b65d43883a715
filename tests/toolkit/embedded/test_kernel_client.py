"""Linux's own Ceph client (krbd, libceph) on an embedded cluster, in a virtual machine that all tests share."""

import json
from typing import Any

import pytest

from messenger.config import Config
from tests.support.guests import OTHERS, PATIENCE_S, marks
from tests.toolkit.embedded.kernel_cases import (
    CUT_MODES,
    DATA_CUTS,
    DISPUTED,
    HANDSHAKE_CUTS,
    MODES,
    MONITOR_CUTS,
)
from toolkit.machine import vm

pytestmark = marks(group=OTHERS)

LOGGED = {
    ("legacy", "skipped_seq"): "bad message sequence #",
    ("legacy", "server_keepalive"): "garbage tag",
    ("crc", "skipped_seq"): "bad message sequence #",
    ("crc", "server_keepalive"): "protocol error, bad tag",
    ("crc", "server_wait"): "bad control segment length 0",
    ("crc", "partial_reset"): "unexpected session_reset",
    ("crc", "aborted_message"): "bad late_status 0x1",
    ("crc", "server_addresses"): "wrong peer at address",
    ("legacy", "unknown_message"): "unknown msg type 30583, skipping",
    ("crc", "unknown_message"): "unknown msg type 30583, skipping",
}
"""What the kernel logs of the frame, by mode and rule."""
KERNEL_WITH_AES256K = 7
"""Major version: 7.2 has it, 6.1 has not."""
Line = dict[str, Any]


@pytest.fixture(scope="module")
def lines(fast_guest: vm.Machine) -> list[Line]:
    done = fast_guest.run_module("tests.toolkit.embedded.kernel_guest", timeout_s=PATIENCE_S)
    assert done.code == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def only(lines: list[Line], **wanted: object) -> Line:
    """The one line with these values."""
    (found,) = (line for line in lines if all(line.get(name) == value for name, value in wanted.items()))
    return found


def chosen(mode: str) -> str:
    """The mode of the link to the OSD."""
    return "secure" if mode.endswith("secure") else "crc"


@pytest.mark.parametrize("mode", MODES)
def test_images_are_mapped_written_and_read(lines: list[Line], mode: str) -> None:
    line = only(lines, mapped=mode)
    assert (line["same"], line["wrong"], line["osd"]) == (True, [], [["cephx", chosen(mode)]])
    assert line["size_bytes"] == 64 << 20


def test_a_notification_of_the_header_resizes_the_device(lines: list[Line]) -> None:
    assert only(lines, missed=0)["notified"] == 1
    assert only(lines, resized=128 << 20)


def test_the_exclusive_lock_is_held_while_the_image_is_mapped(lines: list[Line]) -> None:
    line = only(lines, locked=True)
    assert (line["held"], line["after"]) == (1, 0)


@pytest.mark.parametrize(
    ("mode", "rule"), [(mode, rule) for mode in CUT_MODES for rule in (*DATA_CUTS[mode], *HANDSHAKE_CUTS[mode])]
)
def test_kernel_write_is_applied_once_for_a_cut_at_any_frame(lines: list[Line], mode: str, rule: str) -> None:
    line = only(lines, mode=mode, cut=rule)
    assert (line["same"], line["hits"], line["writes"]) == (True, 1, 1)


@pytest.mark.parametrize(
    ("mode", "rule"), [(mode, rule) for mode, rules in MONITOR_CUTS.items() for rule in rules]
)
def test_kernel_maps_an_image_for_a_cut_at_any_monitor_frame(lines: list[Line], mode: str, rule: str) -> None:
    line = only(lines, mode=mode, monitor_cut=rule)
    assert (line["same"], line["hits"]) == (True, 1)


@pytest.mark.parametrize("mode", CUT_MODES)
def test_every_dial_begins_a_session_and_requests_are_sent_again(lines: list[Line], mode: str) -> None:
    line = only(lines, intact=mode)
    assert line["dials"] > len(DATA_CUTS[mode])
    assert line["resuming"] == 0
    assert line["resent"] > 0


def test_all_written_blocks_are_intact_at_the_end(lines: list[Line]) -> None:
    assert [only(lines, intact=mode)["wrong"] for mode in CUT_MODES] == [[], [], []]
    (last,) = (line for line in lines if "kept" in line)
    assert (last["kept"], last["blocks"] > 50, last["devices"]) == ([], True, 1)


@pytest.mark.parametrize("mode", MODES)
def test_keys_of_aes256k_are_used_or_refused(lines: list[Line], mode: str) -> None:
    line = only(lines, newer=mode)
    if int(lines[0]["kernel"].partition(".")[0]) >= KERNEL_WITH_AES256K:
        assert (line["refused"], line["same"], line["wrong"]) == ("", True, [])
        assert line["osd"] == [["cephx", chosen(mode)]]
    else:
        assert line["refused"].endswith("cannot be mapped: Invalid argument")


@pytest.mark.parametrize(
    ("mode", "name"), [(mode, name) for mode, rules in DISPUTED.items() for name in (*rules, "unknown_message")]
)
def test_kernel_client_follows_its_disputed_rules(lines: list[Line], mode: str, name: str) -> None:
    line = only(lines, mode=mode, disputed=name)
    assert (line["same"], line["hits"]) == (True, 1)
    faults = getattr(Config.like("kernel"), name) in ("fault", "exact")
    assert line["ended"] == faults
    assert LOGGED.get((mode, name), "") in "\n".join(line["log"])
