"""Network namespaces of this machine: create them, and run code in them, one thread at a time."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.extras import require
from toolkit.machine.rtnetlink import rtnetlink

T = TypeVar("T")

DIRECTORY = Path("/run/netns")
"""Directory of named namespaces, as in iproute2."""
_CLONE_NEWNET = 0x40000000
_SYSCTL = Path("/proc/sys/net")
"""Network sysctls of the calling thread's namespace."""
_OWN = Path("/proc/thread-self/ns/net")
_libc = ctypes.CDLL(None, use_errno=True)


class AlreadyThereError(LocalError):
    """A namespace of that name exists, made by another program."""


def create(name: str) -> Path:
    """Create a named namespace; its ``lo`` is up, and interfaces have no IPv6 until they get an address.

    Raises:
        AlreadyThereError: there is one of that name.
        LocalError: it cannot be created.
    """
    from pyroute2 import netns

    def make() -> None:
        unshare()
        netns.attach(name, "thread-self")
        with rtnetlink() as route:
            route.link("set", index=1, state="up")
        # Without IPv6 the kernel sends nothing by itself: no router solicitations, no MLD reports.
        set_sysctl("ipv6/conf/default/disable_ipv6", "1")

    try:
        _in_thread(make)
    except FileExistsError:
        raise AlreadyThereError(
            f"namespace {name} exists already, made by another program: ip netns delete {name}"
        ) from None
    except OSError as error:
        raise LocalError(f"namespace {name}: {error.strerror}") from None
    return DIRECTORY / name


def inside(namespace: Path, what: Callable[[], T]) -> T:
    """Run a function in a namespace, in its own thread; sockets and processes that it starts stay there.

    Raises:
        LocalError: the namespace cannot be entered; and whatever ``what`` raises.
    """

    def enter_first() -> T:
        enter(namespace)
        return what()

    return _in_thread(enter_first)


def in_new(what: Callable[[], T]) -> T:
    """Run a function in a new unnamed namespace, which vanishes with what the function leaves in it.

    Raises:
        OSError: no namespace can be made; and whatever ``what`` raises.
    """

    def unshare_first() -> T:
        unshare()
        return what()

    return _in_thread(unshare_first)


def set_sysctl(name: str, value: str) -> None:
    """Set a sysctl below net/ in the calling thread's namespace, if it exists."""
    path = _SYSCTL / name
    if path.exists():
        path.write_text(value)


def check() -> None:
    """Check that namespaces, veth pairs and bridges can be made, by making some in a temporary namespace.

    Raises:
        Unsupported: they cannot; the message says what is missing and names a remedy.
    """
    require("pyroute2")
    from pyroute2 import NetlinkError

    def attempt() -> None:
        with rtnetlink() as route:
            for kind in ("veth", "bridge"):
                try:
                    route.link("add", ifname=f"t{kind}", kind=kind)
                except NetlinkError:
                    raise Unsupported(
                        f"netns: the kernel has no {kind} interfaces: modprobe {kind}, or --backend process"
                    ) from None

    try:
        in_new(attempt)
    except OSError as error:
        if os.geteuid() != 0:
            raise Unsupported(
                "netns: namespaces need root: sudo msgrlab ..., or unshare --map-root-user --net --mount"
                " sh -c 'mount -t tmpfs none /run && msgrlab ...', or --backend process"
            ) from None
        raise Unsupported(
            f"netns: no namespaces for this process ({error.strerror}): in a container they need"
            " --cap-add SYS_ADMIN --cap-add NET_ADMIN; or --backend process"
        ) from None


def unshare() -> None:
    """Move the calling thread to a new unnamed namespace; raises OSError."""
    if _libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def join(namespace: Path) -> None:
    """Move the calling thread to the namespace of a file; raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def enter(namespace: Path) -> None:
    """Move the calling thread, and what it starts from now on, to a namespace; not for the main thread.

    Raises:
        LocalError: the namespace cannot be entered.
    """
    try:
        join(namespace)
    except OSError as error:
        raise LocalError(f"namespace {namespace}: {error.strerror}") from None


@contextmanager
def within(namespace: Path | None) -> Iterator[None]:
    """Move this thread to a namespace for the duration of a ``with`` block; None changes nothing.

    Sockets and devices that are opened there stay there.

    Raises:
        LocalError: there is no such namespace, or it may not be entered.
    """
    if namespace is None:
        yield
        return
    with _OWN.open("rb") as home:
        enter(namespace)
        try:
            yield
        finally:
            enter(Path(f"/proc/self/fd/{home.fileno()}"))


def _in_thread(what: Callable[[], T]) -> T:
    """Run ``what`` in a thread that ends afterwards, since it may change its namespace; returns the result."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(what())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)

    thread = threading.Thread(target=run, name="in a namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
