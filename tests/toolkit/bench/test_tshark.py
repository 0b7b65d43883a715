"""tshark's own words about a capture that the messenger's core made."""

import subprocess
from pathlib import Path

import pytest

from toolkit.bench.captures import RECIPES, write_capture
from toolkit.bench.tshark import FIELDS, MESSAGE_TAG, count_in_fields, fields_command, json_rows

MESSAGES = 128


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Small messages of v1, several to a packet."""
    path = tmp_path / "v1.pcapng"
    write_capture(next(recipe for recipe in RECIPES if recipe.name == "v1 small"), path, MESSAGES)
    return path


@pytest.mark.needs("tshark")
def test_fields_describe_every_message(capture: Path) -> None:
    done = subprocess.run(fields_command(capture), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert count_in_fields(lines) == MESSAGES
    assert {line.count("\t") for line in lines} == {len(FIELDS) - 1}


@pytest.mark.needs("tshark")
def test_json_becomes_a_row_for_each_message(capture: Path) -> None:
    rows = [row for row in json_rows(capture) if row["tag"] == MESSAGE_TAG]
    assert len(rows) == MESSAGES
    assert [int(row["ceph.seq"]) for row in rows if row["stream"] == "0"] == list(range(1, MESSAGES // 4 + 1))
    assert {row["ceph.type"] for row in rows} == {"0xbe9c"}


def test_messages_of_one_packet_are_counted_each() -> None:
    assert count_in_fields(["0x07,0x08,0x07\t5", "0x08\t6", "\t7", "0x07"]) == 3
