"""``FOLDED`` frames: records that stand for consecutive frames which were judged already."""

from collections.abc import Sequence

from toolkit.checks.records import FOLDED, MESSAGE_TAGS, Record, frames_of, long_frames_of, traffic_until_s

FOLDABLE_TAGS = frozenset({FOLDED, *MESSAGE_TAGS, "ACK", "KEEPALIVE", "KEEPALIVE2", "KEEPALIVE2_ACK"})
"""Frames that leave the history when the messages among them are settled."""


def stands_for(run: Sequence[Record]) -> Record:
    """Return the record that replaces consecutive frames of one direction of a link."""
    first = run[0]
    fields = {
        **first.fields,
        "tag": FOLDED,
        "index": first["index"],
        "offset": first["offset"],
        "length": sum(record["length"] for record in run),
        "until_s": max(traffic_until_s(record) for record in run),
        "fields": {
            "frames": sum(frames_of(record) for record in run),
            "long": sum(long_frames_of(record) for record in run),
            **_numbers(run),
        },
    }
    return Record(first.time_s, first.node, first.kind, fields)


def _numbers(run: Sequence[Record]) -> dict[str, int]:
    """Return the numbers of a run for the audit: of KEEPALIVE2 frames, and the last seq and ack if any."""
    keepalives = (record["fields"].get("keepalives", record["tag"] == "KEEPALIVE2") for record in run)
    found = {"keepalives": sum(keepalives)}
    for record in run:
        fields, tag = record["fields"], record["tag"]
        last_seq, last_ack = fields.get("last_seq"), fields.get("last_ack")
        if tag in MESSAGE_TAGS:
            last_seq, last_ack = fields.get("seq"), fields.get("ack_seq")
        elif tag == "ACK":
            last_ack = fields["seq"]
        for name, number in (("last_seq", last_seq), ("last_ack", last_ack)):
            if number is not None:
                found[name] = max(number, found.get(name, 0))
    return found
