"""Proxies between hosts in the guest of a cluster: rules go there, and records of their actions come back."""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from toolkit.cluster.backends.vm.guest import Guest

if TYPE_CHECKING:
    from toolkit.faults.language.scene import Write


class _Rule:
    """Writes the records of a rule's actions."""

    def __init__(self, write: "Write", clock_ahead_s: float) -> None:
        self._write = write
        self._clock_ahead_s = clock_ahead_s

    def put(self, output: bytes) -> None:
        """Write a record: its kind, its fields and the guest's monotonic time."""
        kind, fields, time_s = json.loads(output)
        age_s = time.monotonic() + self._clock_ahead_s - time_s
        self._write(kind, fields, max(age_s, 0.0))

    def exit(self, *_how: Any) -> None:  # noqa: ANN401 - see Receiver
        """Do nothing: proxies end with the guest."""


class GuestProxy:
    """A proxy in the guest, with the interface of :class:`toolkit.faults.language.scene.ProxyHere`.

    Args:
        guest: the guest.
        number: number of the proxy there.
        host: address at which it listens.
        port: port at which it listens.
    """

    def __init__(self, guest: Guest, number: int, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._guest = guest
        self._number = number

    def add_rule(self, rule: str, write: "Write") -> Callable[[], None]:
        """Add a rule of a script; returns the function that removes it.

        Raises:
            LocalError: the text is no rule, or the guest has ended.
        """
        number = self._guest.register(_Rule(write, self._guest.clock_ahead_s))
        try:
            self._guest.call("proxies.add_rule", proxy=self._number, number=number, rule=rule)
        except BaseException:
            self._guest.forget(number)
            raise
        return partial(self._remove_rule, number)

    def _remove_rule(self, number: int) -> None:
        self._guest.call("proxies.remove_rule", number=number)
        self._guest.forget(number)

    def release(self, name: str) -> int:
        """Release everything held under ``name``; returns the number of frames and dials released."""
        return int(self._do("release", name=name))

    def refuse(self, *, refused: bool = True) -> None:
        """Refuse new connections; ``refused=False`` accepts them again."""
        self._do("refuse", refused=refused)

    def heal(self) -> None:
        """Revert all holds, delays, rate limits and refusals."""
        self._do("heal")

    def _do(self, method: str, **args: Any) -> Any:  # noqa: ANN401 - as JSON
        return self._guest.call("proxies.call", proxy=self._number, method=method, args=args)
