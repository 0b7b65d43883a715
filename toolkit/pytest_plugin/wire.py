"""Proxies and captures for tests."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.pytest_plugin.evidence import Evidence, Scene, save_history

if TYPE_CHECKING:
    from toolkit.capture.recorder import Taken
    from toolkit.dissect.capture import Capture
    from toolkit.faults.live import Proxy

Added = Callable[[Evidence], None]
PathLike = str | Path


class Proxies:
    """Opens fault proxies between a program and a server of the user's.

    Args:
        added: called with the evidence of each proxy.
        running: closes the proxies.
    """

    def __init__(self, added: Added, running: ExitStack) -> None:
        self._added = added
        self._running = running

    def __call__(
        self,
        target: str,
        rules: "str | Sequence[str]" = (),
        *,
        keyring: PathLike | Sequence[PathLike] = (),
        **options: Any,  # noqa: ANN401 - arguments of Proxy
    ) -> "Proxy":
        """Start a proxy; dial its ``address`` instead of the target.

        Args:
            target: HOST:PORT of the server, or its address as Ceph prints it.
            rules: rules of the proxy (docs/proxy.md), such as ``-> MESSAGE #3: cut``.
            keyring: files with keys, needed to apply rules to secure links.
            options: the other arguments of :class:`toolkit.faults.live.Proxy`.

        Raises:
            LocalError: a rule or target is malformed, or a file is not a keyring.
        """
        from toolkit.faults.live import Proxy  # noqa: PLC0415 - only tests with proxies need it

        given = [rules] if isinstance(rules, str) else list(rules)
        proxy = self._running.enter_context(Proxy(target, given, keyring, **options))

        def save(directory: Path) -> Mapping[str, Path]:
            return save_history(proxy.history(), directory)

        title = f"proxy {proxy.address} to {target}"
        self._added(Evidence(title, lambda: Scene(proxy.history(), ()), save, notes=[f"rules: {given or 'none'}"]))
        return proxy


class Recorded:
    """A running capture; :meth:`stop` or the end of the test ends it."""

    def __init__(self, taken: "Taken", open_capture: ExitStack) -> None:
        self.taken = taken
        """Number of packets, and number of dropped packets."""
        self.path = taken.path
        """The capture's file, in pcapng format."""
        self._open = open_capture

    def stop(self) -> None:
        """End the capture and complete its file."""
        self._open.close()

    def read(self, keyrings: Sequence[PathLike] = (), key_logs: Sequence[PathLike] = ()) -> "Capture":
        """End the capture, and decode it with the given keys: frames, sessions, chart, checks.

        Raises:
            LocalError: a file is not a keyring or not a key log.
        """
        from toolkit.dissect.capture import Capture  # noqa: PLC0415 - only tests with captures need it

        self.stop()
        assert self.path is not None
        return Capture(self.path, keyrings, key_logs)


class Captures:
    """Takes captures.

    Args:
        added: called with the evidence of each capture.
        running: ends the captures.
        directory: creates the directory for the files of a capture.
    """

    def __init__(self, added: Added, running: ExitStack, directory: Callable[[str], Path]) -> None:
        self._added = added
        self._running = running
        self._directory = directory

    def __call__(self, target: str = "lo", *, ports: str = "all", key_log: PathLike | None = None) -> Recorded:
        """Start a capture.

        Args:
            target: an interface, or ``netns:NAME``, ``docker:CONTAINER``, ``pid:N`` or ``ssh:HOST``, each with
                ``/IFACE`` or all of its interfaces.
            ports: TCP ports of either end, like ``3300,6800-7568``, or ``all``.
            key_log: key log of a messenger or proxy, copied into the capture as it grows, so that secure links
                decode.

        Raises:
            Unsupported: this machine cannot take captures.
            LocalError: the target does not exist.
        """
        from toolkit.capture.recorder import capturing  # noqa: PLC0415 - only tests with captures need it

        path = self._directory("msgrlab-capture") / "capture.pcapng"
        opened = self._running.enter_context(ExitStack())
        recorded = Recorded(opened.enter_context(capturing(target, path, ports=ports, key_log=key_log)), opened)

        def save(directory: Path) -> Mapping[str, Path]:
            recorded.stop()
            return {"capture": Path(shutil.copyfile(path, directory / path.name))}

        def scene() -> Scene:
            return Scene(recorded.read().history(), ())

        self._added(Evidence(f"capture of {target}, ports {ports}", scene, save))
        return recorded
