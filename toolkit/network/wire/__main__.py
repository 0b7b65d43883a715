"""The wire as a process: ``python -m toolkit.network.wire``, controlled by JSON lines on its input.

Each line is an object with ``do`` and its arguments, and is answered by a line: ``{"ok": ...}`` or
``{"error": ..., "unsupported": ...}``. The process exits at the end of its input, and its interfaces vanish with
it.
"""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.network.state import LinkState
from toolkit.network.wire.switch import Switch
from toolkit.network.wire.tap import open_tap

_PRIORITY = -15
_SLACK = Path("/proc/self/timerslack_ns")
_CHUNK_BYTES = 1 << 16


class Control:
    """Reads commands and writes replies."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._buffer = b""
        self.over = False
        self._verbs: dict[str, Callable[..., object]] = {
            "attach": self._attach,
            "detach": switch.remove,
            "set": self._set,
            "get": self._get,
            "statistics": switch.statistics,
        }

    def ready(self) -> None:
        """Read input and run the complete commands in it."""
        chunk = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
        self.over = not chunk
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            sys.stdout.write(json.dumps(self._answer(json.loads(line))) + "\n")
        sys.stdout.flush()

    def _answer(self, command: dict[str, Any]) -> dict[str, object]:
        try:
            return {"ok": self._verbs[command.pop("do")](**command)}
        except LocalError as error:
            return {"error": str(error), "unsupported": isinstance(error, Unsupported)}

    def _attach(self, host: str, network: str, namespace: str, interface: str, mtu: int, behind: str) -> str:
        tap, address = open_tap(Path(namespace) if namespace else None, interface, mtu)
        macs = [address, *([bytes.fromhex(behind.replace(":", ""))] if behind else [])]
        try:
            self._switch.add(host, network, tap, macs)
        except LocalError:
            os.close(tap)
            raise
        return address.hex(":")

    def _set(self, links: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        # Parse all states before any is applied.
        self._switch.set([(sender, to, LinkState.model_validate(state)) for sender, to, state in links])

    def _get(self, sender: str, receiver: str) -> dict[str, Any]:
        return self._switch.get(sender, receiver).model_dump(mode="json")


def main() -> None:
    """Serve until the input ends."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)  # forwarding must not wait for busy nodes
    with contextlib.suppress(OSError):
        _SLACK.write_text("1")
    switch = Switch()
    control = Control(switch)
    switch.watch(sys.stdin.fileno(), control.ready)
    # Packets make no reference cycles, and a collection would delay them.
    gc.disable()
    with contextlib.suppress(KeyboardInterrupt):
        while not control.over:
            switch.turn()


if __name__ == "__main__":
    main()
