"""The applications' sends and deliveries compared with the messages on the wire."""

from collections.abc import Mapping
from itertools import takewhile
from operator import itemgetter
from typing import Any

from toolkit.checks.model.problems import About, Problems
from toolkit.checks.records import Record
from toolkit.checks.wires import Entry

_HEAD = ("tid", "type", "priority", "version")
_PARTS = ("front", "middle", "data")
_head = itemgetter(*_HEAD)
_parts = itemgetter(*_PARTS)


class Receipts:
    """The messages of one session between its application and its links.

    Args:
        problems: collects the problems.
        sends: the session's ``send`` records.
        prompt: True if a received message is delivered before the session does anything else.
        earlier: position up to which frames of the session have left the history; -1 if none has.
    """

    def __init__(self, problems: Problems, sends: list[Entry], *, prompt: bool, earlier: int) -> None:
        self._problems = problems
        self._earlier = earlier
        self.prompt = prompt
        self._handed_over: dict[int, list[Entry]] = {}
        """Sends by tid; Ceph's daemons use one tid for several messages."""
        for entry in sends:
            self._handed_over.setdefault(entry[1].fields["tid"], []).append(entry)
        self._waiting: dict[int, tuple[Entry, bool]] = {}
        """By seq, frames of messages that are not delivered yet, and True if their delivery is optional."""
        self._closed = False

    # ---- to the peer

    def written(self, position: int, fields: Mapping[str, Any]) -> None:
        """Process a message that was written."""
        tid = fields.get("tid")
        known = [] if tid is None else self._handed_over.get(tid, [])
        differences = [_difference(sent.fields, fields) for at, sent in known if at <= position]
        if not differences:
            self._add(position, f"seq {fields['seq']} is written with tid {tid}, which was never sent")
        elif None not in differences:
            self._add(position, f"tid {tid} is written with another {differences[0]} than it was sent with")

    # ---- from the peer

    def received(self, entry: Entry, seq: int, *, doubtful: bool) -> None:
        """Process a new message; a ``doubtful`` one may be rejected, or delivered when its link is released."""
        if self.prompt and self._waiting:
            self.settle_before(entry[1].time_s)
        self._waiting.pop(seq, None)  # so that the order stays that of the times
        self._waiting[seq] = entry, doubtful or self._closed

    def delivered(self, position: int, record: Record) -> None:
        """Process a message that was delivered, or that no dispatcher accepted."""
        seq = record.fields["seq"]
        waiting = self._waiting.pop(seq, None)
        if position <= self._earlier:
            return  # its frame has left the history
        if waiting is None:
            self._add(position, f"seq {seq} is delivered, but no frame has brought it")
        elif (name := _difference(record.fields, waiting[0][1].fields["fields"])) is not None:
            self._add(position, f"seq {seq} is delivered with another {name} than its frame has")

    def acknowledged(self, position: int) -> None:
        """Process an ACK that was written."""
        if self.prompt and self._waiting:
            for seq, (_, optional) in self._waiting.items():
                if not optional:
                    text = f"seq {seq} is acknowledged before it is delivered"
                    self._problems.add(position, About.ACK, text)

    def settle(self) -> None:
        """Report all received messages that are not delivered yet."""
        for seq in list(self._waiting):
            self._missing(seq)

    def settle_before(self, now_s: float) -> None:
        """Report all messages received before that time that are not delivered yet."""
        for seq in [seq for seq, _ in takewhile(lambda item: item[1][0][1].time_s < now_s, self._waiting.items())]:
            self._missing(seq)

    def close(self) -> None:
        """Process the end of the session by this side: messages still on another shard need not be delivered."""
        self._closed = True
        self._waiting.clear()

    # ---- problems

    def _missing(self, seq: int) -> None:
        (position, _), optional = self._waiting[seq]
        if not optional:
            del self._waiting[seq]
            self._add(position, f"seq {seq} is received, but not delivered")

    def _add(self, position: int, text: str) -> None:
        self._problems.add(position, About.RECEIPT, text)


def _difference(delivered: Mapping[str, Any], frame: Mapping[str, Any]) -> str | None:
    """Name the first field in which an application's record and a frame differ, if both have it; else None."""
    try:
        if _head(delivered) == _head(frame) and delivered["size"] == sum(_parts(frame)):
            return None  # the usual case
    except KeyError:
        pass
    for name in _HEAD:
        if name in delivered and delivered[name] != frame.get(name, delivered[name]):
            return name
    if "size" in delivered and all(part in frame for part in _PARTS) and delivered["size"] != sum(_parts(frame)):
        return "size"
    return None
