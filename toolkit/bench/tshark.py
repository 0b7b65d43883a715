"""tshark as a decoder of msgr v1: the fields that our columns also have, and its JSON loaded into a table.

tshark reassembles and dissects, but checks no crc; it does not dissect msgr v2.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

TSHARK = "tshark"
MESSAGE_TAG = "0x07"
"""Value of ``ceph.tag`` in messages."""
_TAG, _SEPARATOR = "ceph.tag", "\t"
FIELDS = (
    _TAG,
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "ip.src",
    "tcp.srcport",
    "ip.dst",
    "tcp.dstport",
    "ceph.type",
    "ceph.src",
    "ceph.seq",
    "ceph.tid",
    "ceph.head_version",
    "ceph.compat_version",
    "ceph.priority",
    "ceph.front_size",
    "ceph.middle_size",
    "ceph.data_size",
    "ceph.crc",
    "ceph.ack",
)
"""The fields that ``msgrlab decode`` prints of a frame; a packet's messages are joined by commas."""


def installed() -> bool:
    """True if tshark is installed."""
    return shutil.which(TSHARK) is not None


def fields_command(capture: Path) -> list[str]:
    """Return the tshark command that prints a line for each packet that completes a message."""
    options = [option for name in FIELDS for option in ("-e", name)]
    return [TSHARK, "-n", "-r", str(capture), "-Y", "ceph", "-T", "fields", *options]


def count_in_fields(lines: Iterable[str]) -> int:
    """Count the messages in the output of :func:`fields_command`."""
    return sum(line.partition(_SEPARATOR)[0].split(",").count(MESSAGE_TAG) for line in lines)


def json_rows(capture: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each messenger item that tshark prints as JSON.

    The output is parsed packet by packet: the JSON of a whole capture is ten times as long as the capture.
    """
    command = [TSHARK, "-n", "-r", str(capture), "-Y", "ceph", "-T", "json", "--no-duplicate-keys"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for packet in _packets(process.stdout):
            layers = packet["_source"]["layers"]
            found = layers["ceph"]
            for part in found if isinstance(found, list) else [found]:
                yield _row(layers["frame"], layers["tcp"], part)


def _packets(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield each packet: the items of tshark's list are indented by two blanks."""
    packet: list[str] = []
    for line in lines:
        if line.startswith("  }"):
            yield json.loads("".join(packet) + "}")
            packet = []
        elif line.startswith("  "):
            packet.append(line)


def _row(frame: dict[str, Any], tcp: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    head = part.get("ceph.head", {})
    return {
        "frame": frame["frame.number"],
        "time": frame["frame.time_epoch"],
        "stream": tcp["tcp.stream"],
        "tag": part.get(_TAG),
        **{name: value for name, value in head.items() if isinstance(value, str)},
    }
