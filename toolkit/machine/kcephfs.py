"""CephFS mounted by the kernel's own client (ceph, libceph).

::

    kcephfs.mount("10.77.0.1:3300", Path("/mnt"), key=key, mode="secure")
    kcephfs.unmount(Path("/mnt"))

The kernel connects from the network namespace of the thread that mounts.
"""

import ctypes
import errno
import os
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported
from toolkit.machine.krbd import mount_options

_TYPE = b"ceph"
_libc = ctypes.CDLL(None, use_errno=True)


def mount(
    monitor: str,
    directory: Path,
    *,
    path: str = "/",
    name: str = "admin",
    key: str = "",
    mode: str = "legacy",
    options: str = "",
) -> None:
    """Mount a file system; the kernel loads its module if needed.

    Args:
        monitor: HOST:PORT of a monitor; the v1 port for ``legacy``, the v2 port for the other modes.
        directory: where to mount it.
        path: directory of the file system to mount.
        name: name of the client, without ``client.``.
        key: key of the client in base64; empty for no authentication.
        mode: one of :data:`~toolkit.machine.krbd.MODES`.
        options: further kernel options, separated by commas, such as ``mount_timeout=20``.

    Raises:
        LocalError: an unknown mode, or the kernel could not mount it; the kernel log says why.
        Unsupported: the kernel has no module ceph.
    """
    source, data = f"{monitor}:{path}", mount_options(name, key, mode, options)
    target = os.fsencode(directory)
    if _libc.mount(source.encode(), target, _TYPE, ctypes.c_ulong(0), data.encode()) != 0:
        code = ctypes.get_errno()
        if code == errno.ENODEV:
            raise Unsupported("the kernel has no module ceph")
        raise LocalError(f"{source} cannot be mounted at {directory}: {os.strerror(code)}")


def unmount(directory: Path) -> None:
    """Write what is cached, and unmount the file system.

    Raises:
        LocalError: nothing is mounted there, or it is in use.
    """
    if _libc.umount2(os.fsencode(directory), 0) != 0:
        raise LocalError(f"{directory} cannot be unmounted: {os.strerror(ctypes.get_errno())}")
