"""Detects marks of a payload in the bytes of streams that must not show them."""

from collections.abc import Hashable, Iterable

from messenger.denc.codec import Buffer

PAYLOAD_MARK = b" message "
"""Part of every payload that a scenario's nodes send; see ``toolkit/node/app.py``."""


class Canary:
    """Searches the bytes of any number of streams for marks.

    Args:
        marks: bytes that must not appear.
    """

    def __init__(self, marks: Iterable[bytes] = (PAYLOAD_MARK,)) -> None:
        self._marks = tuple(marks)
        self._kept_bytes = max((len(mark) for mark in self._marks), default=1) - 1
        self._tails: dict[Hashable, bytes] = {}

    def feed(self, stream: Hashable, chunk: Buffer) -> bytes | None:
        """Search the next bytes of one direction of a stream; returns the mark found, else None."""
        seen = self._tails.get(stream, b"") + bytes(chunk)
        self._tails[stream] = seen[-self._kept_bytes :] if self._kept_bytes else b""
        return next((mark for mark in self._marks if mark in seen), None)
