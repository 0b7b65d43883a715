"""Frames between a cluster and the agent in its guest, on one byte stream: calls, answers, and bytes of programs.

A frame has a header and a payload. Calls and answers are JSON with a number that pairs them; the number of the
other frames is that of a program, a capture or a rule.
"""

import json
import os
import struct
import threading
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from messenger.errors import LocalError
from toolkit.errors import Unsupported

_HEAD = struct.Struct(">BII")
"""Kind, number, and length of the payload."""


class Kind(IntEnum):
    """What a frame carries."""

    CALL = 1
    ANSWER = 2
    INPUT = 3
    """Bytes for a program's standard input; none is its end."""
    OUTPUT = 4
    """Bytes of a program's standard output, where none is its end; of a capture; or a record of a proxy's rule."""
    EXIT = 5
    """The exit code of a program and the last lines of its errors, after all its output; as JSON."""


class Frame(NamedTuple):
    """A frame."""

    kind: Kind
    number: int
    payload: bytes

    def values(self) -> Any:  # noqa: ANN401 - as JSON
        """Return the payload as JSON."""
        return json.loads(self.payload)


class Channel:
    """One end of the stream.

    Args:
        descriptor: descriptor of the stream, which the channel closes.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stream = os.fdopen(descriptor, "rb", buffering=1 << 16)
        self._sending = threading.Lock()

    def send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        """Send a frame, from any thread; raises OSError if the other end is closed."""
        unsent = memoryview(_HEAD.pack(kind, number, len(payload)) + payload)
        with self._sending:
            while unsent:
                unsent = unsent[os.write(self._descriptor, unsent) :]

    def send_values(self, kind: Kind, number: int, values: Any) -> None:  # noqa: ANN401 - as JSON
        """Send a frame whose payload is JSON; raises OSError if the other end is closed."""
        self.send(kind, number, json.dumps(values, separators=(",", ":")).encode())

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of the other end until it closes the stream."""
        while len(head := self._stream.read(_HEAD.size)) == _HEAD.size:
            kind, number, size = _HEAD.unpack(head)
            if len(payload := self._stream.read(size)) < size:
                return
            yield Frame(Kind(kind), number, payload)

    def close(self) -> None:
        """Close this end, which must not be reading."""
        self._stream.close()


def refusal(error: Exception) -> dict[str, Any]:
    """Return the answer that carries an error."""
    words = str(error) if isinstance(error, LocalError) else f"{type(error).__name__}: {error}"
    return {"error": words, "unsupported": isinstance(error, Unsupported)}


def result(answer: dict[str, Any]) -> Any:  # noqa: ANN401 - as JSON
    """Return the result in an answer.

    Raises:
        Unsupported: the guest cannot do it.
        LocalError: the call failed.
    """
    if "error" in answer:
        raise (Unsupported if answer["unsupported"] else LocalError)(answer["error"])
    return answer["result"]
