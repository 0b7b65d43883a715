"""RBD images as block devices of the kernel, through its own Ceph client (krbd, libceph).

::

    device = krbd.map_image("127.0.0.1:3300", "rbd", "disk", key=key, mode="secure")
    print(device.path)  # /dev/rbd0
    krbd.unmap(device)

The kernel connects from the network namespace of the thread that maps the image.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError
from toolkit.errors import Unsupported

MODES = ("legacy", "crc", "secure", "prefer-crc", "prefer-secure")
"""Settings of ``ms_mode``: ``legacy`` is msgr v1, the others are msgr v2."""
_BUS = Path("/sys/bus/rbd")
_KERNEL_LOG = Path("/dev/kmsg")
_KERNEL_LOG_RECORD_BYTES = 8192


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A mapped image."""

    number: int

    @property
    def path(self) -> Path:
        """The device file."""
        return Path(f"/dev/rbd{self.number}")

    @property
    def size_bytes(self) -> int:
        """Present size; it changes when the image is resized."""
        return int(_read(self._directory / "size"))

    @property
    def image(self) -> tuple[str, str]:
        """Names of the pool and the image."""
        return _read(self._directory / "pool"), _read(self._directory / "name")

    @property
    def _directory(self) -> Path:
        return _BUS / "devices" / str(self.number)


def load() -> None:
    """Load the kernel module rbd.

    Raises:
        Unsupported: there is none, or it may not be loaded.
    """
    if _BUS.exists():
        return
    try:
        done = subprocess.run(["modprobe", "rbd"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise Unsupported(f"modprobe rbd: {error.strerror}") from None
    if done.returncode or not _BUS.exists():
        raise Unsupported(f"the kernel has no module rbd: {done.stderr.strip() or 'modprobe failed'}")


def devices() -> list[BlockDevice]:
    """Return the mapped images, by number; none without the module."""
    directory = _BUS / "devices"
    numbers = [int(path.name) for path in directory.iterdir()] if directory.exists() else []
    return [BlockDevice(number) for number in sorted(numbers)]


def map_image(
    monitor: str,
    pool: str,
    image: str,
    *,
    name: str = "admin",
    key: str = "",
    mode: str = "legacy",
    options: str = "",
) -> BlockDevice:
    """Map an image, and load the module if needed; returns once the device exists.

    Args:
        monitor: HOST:PORT of a monitor; the v1 port for ``legacy``, the v2 port for the other modes.
        pool: name of the pool.
        image: name of the image.
        name: name of the client, without ``client.``.
        key: key of the client in base64; empty for no authentication.
        mode: one of :data:`MODES`.
        options: further kernel options, separated by commas, such as ``mount_timeout=20``.

    Raises:
        LocalError: an unknown mode, or the kernel could not map the image; the kernel log says why.
        Unsupported: the kernel has no module rbd.
    """
    given = mount_options(name, key, mode, options)
    load()
    before = set(devices())
    _write("add", f"{monitor} {given} {pool} {image} -", f"{pool}/{image} cannot be mapped")
    mapped = [each for each in devices() if each not in before and each.image == (pool, image)]
    if not mapped:
        raise LocalError(f"{pool}/{image}: unmapped again by another program")
    return mapped[0]


def mount_options(name: str, key: str, mode: str, options: str) -> str:
    """Return the options of the kernel's client as text; arguments are those of :func:`map_image`.

    Raises:
        LocalError: an unknown mode.
    """
    if mode not in MODES:
        raise LocalError(f"ms_mode {mode!r}: give one of {', '.join(MODES)}")
    given = [f"name={name}", f"ms_mode={mode}"]
    given += [f"secret={key}"] if key else []
    given += [options] if options else []
    return ",".join(given)


def unmap(device: BlockDevice, *, force: bool = False) -> None:
    """Unmap an image.

    Args:
        device: device that :func:`map_image` returned.
        force: True to unmap an open device, failing its requests in flight.

    Raises:
        LocalError: the device is open, or does not exist.
    """
    _write("remove", f"{device.number}{' force' if force else ''}", f"{device.path} cannot be unmapped")


class KernelLog:
    """The kernel log of its Ceph client, from now on.

    Raises:
        LocalError: it cannot be read, which needs root.
    """

    def __init__(self) -> None:
        try:
            self._descriptor = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise LocalError(f"{_KERNEL_LOG}: {error.strerror}") from None
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def lines(self) -> list[str]:
        """Return the lines of libceph, ceph and rbd since the last call, without time stamps."""
        texts = [record.split(";", 1)[-1].split("\n", 1)[0] for record in self._records()]
        return [text for text in texts if text.startswith(("libceph", "ceph", "rbd"))]

    def close(self) -> None:
        """Close the log."""
        os.close(self._descriptor)

    def _records(self) -> Iterator[str]:
        while True:
            try:
                record = os.read(self._descriptor, _KERNEL_LOG_RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # the kernel has overwritten the next records: go on after them
            if not record:
                return
            yield record.decode(errors="replace")


def _write(order: str, text: str, failure: str) -> None:
    """Write a command to the bus, to the ``_single_major`` file if that exists (the kernel's default)."""
    single = _BUS / f"{order}_single_major"
    try:
        (single if single.exists() else _BUS / order).write_text(text)
    except OSError as error:
        raise LocalError(f"{failure}: {error.strerror}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}") from None
