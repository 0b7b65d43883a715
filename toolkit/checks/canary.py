"""Looks for marks of a payload among the bytes of a stream that must not show them."""

from collections.abc import Hashable, Iterable

from messenger.denc.codec import Buffer

PAYLOAD_MARK = b" message "
"""What every payload of a scenario's nodes has in it; see ``toolkit/node/app.py``."""


class Canary:
    """Listens to the bytes of any number of streams.

    Args:
        marks: what must not show.
    """

    def __init__(self, marks: Iterable[bytes] = (PAYLOAD_MARK,)) -> None:
        self._marks = tuple(marks)
        self._kept_bytes = max((len(mark) for mark in self._marks), default=1) - 1
        self._tails: dict[Hashable, bytes] = {}

    def feed(self, stream: Hashable, chunk: Buffer) -> bytes | None:
        """The next bytes of one direction of a stream: the mark that shows in them, if one does."""
        seen = self._tails.get(stream, b"") + bytes(chunk)
        self._tails[stream] = seen[-self._kept_bytes :] if self._kept_bytes else b""
        return next((mark for mark in self._marks if mark in seen), None)
