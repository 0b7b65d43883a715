"""The guest's side of proxies: opens them, and sends records of what their rules do."""

import pickle
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolkit.cluster.backends.base import Backend
from toolkit.cluster.backends.vm.channel import Channel, Kind

if TYPE_CHECKING:
    from toolkit.faults.language.scene import ProxyHere


class AgentProxies:
    """Proxies between hosts in the guest, and their rules, by number.

    Args:
        channel: stream to the cluster.
        backend: opens the proxies.
    """

    def __init__(self, channel: Channel, backend: Backend) -> None:
        self._channel = channel
        self._backend = backend
        self._proxies: dict[int, ProxyHere] = {}
        self._rules: dict[int, Callable[[], None]] = {}
        """Functions that remove rules."""

    def do_keys(self, book: str) -> None:
        """Set the keys with which proxies that are opened from now on parse frames of secure links."""
        self._backend.keys = pickle.loads(b64decode(book))  # noqa: S301 - of the cluster that runs this guest

    def do_open(self, number: int, dialler: str, dialled: str, address: tuple[str, int] | None) -> tuple[str, int]:
        """Open a proxy to an address, or to all ports of a host; returns where it listens."""
        if address is None:
            proxy = self._backend.redirected(dialler, dialled)
        else:
            proxy = self._backend.proxy(dialler, dialled, (address[0], address[1]))
        self._proxies[number] = proxy
        return proxy.host, proxy.port

    def do_end(self, dialler: str, dialled: str) -> None:
        """Close the proxies from one node to another."""
        self._backend.end_proxy(dialler, dialled)

    def do_call(self, proxy: int, method: str, args: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as JSON
        """Call a method of a proxy."""
        return getattr(self._proxies[proxy], method)(**args)

    def do_add_rule(self, proxy: int, number: int, rule: str) -> None:
        """Add a rule to a proxy."""

        def write(kind: str, fields: dict[str, Any], age_s: float) -> None:
            with suppress(OSError):
                self._channel.send_values(Kind.OUTPUT, number, [kind, fields, time.monotonic() - age_s])

        self._rules[number] = self._proxies[proxy].add_rule(rule, write)

    def do_remove_rule(self, number: int) -> None:
        """Remove a rule and release what it holds."""
        self._rules.pop(number)()
