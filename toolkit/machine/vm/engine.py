"""What runs the kernel of a virtual machine: the command on the host, and what differs inside the guest."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from toolkit.machine.capability import Finding
from toolkit.machine.vm.kernels import Kernel
from toolkit.machine.vm.networks import Attachment

ROOT, MODULES, BYTECODE, SHARE, OUT = "root", "modules", "bytecode", "share", "out"
"""Tags by which the guest mounts directories.

They are the host's files, the kernel's modules, bytecode, the files exchanged with the host, and the directory
whose changes are kept.
"""
INTERFACE = "eth0"
"""The guest's interface, if it has a network."""
PORT = "/run/msgrlab/port"
"""The guest's stream to a socket of the host, if it has one."""
WITH_BYTECODE = "msgrlab.bytecode"
"""Word on the kernel's command line that says that there is bytecode."""
INITRAMFS, CONSOLE = "initramfs", "console"
"""Names of files in the machine's directory."""


@dataclass(frozen=True, slots=True)
class Boot:
    """A guest to start."""

    kernel: Kernel
    directory: Path
    """The machine's directory, with the initramfs; the kernel's output may go to a file in it."""
    shares: Mapping[str, Path]
    """Directories that the guest may write to, by their tags."""
    memory_mib: int
    """Memory of the guest, in MiB."""
    bytecode: Path | None = None
    """Directory to show above the host's files."""
    attachment: Attachment | None = None
    """The guest's network; the engine inherits its descriptor."""
    port: int | None = None
    """Descriptor of a connected socket for :data:`PORT`, which the engine inherits."""


class Engine(ABC):
    """A program that boots kernels."""

    jobs: ClassVar[str]
    """Device of the guest that reads the engine's standard input."""
    takes_headers: ClassVar[bool]
    """True if the guest's tap device has virtio headers."""
    needs_trial: ClassVar[bool] = False
    """True if only a boot shows whether it works here."""

    @abstractmethod
    def programs(self) -> Finding:
        """Find the programs that the engine needs on the host; the detail has its name and version."""

    @abstractmethod
    def speed(self) -> str:
        """Return how fast it is here, in a few words."""

    @abstractmethod
    def command_line(self, boot: Boot) -> list[str]:
        """Return the command that runs a guest; it exits when the guest powers off, and dies with its parent."""

    @abstractmethod
    def mounted(self, tag: str, *, is_writable: bool = False) -> str:
        """Return the options and the source of the guest's ``mount`` for a tag."""

    def overlay(self) -> str:
        """Return options of the overlay above the host's files; each is followed by a comma."""
        return ""

    @abstractmethod
    def interface(self, modprobe: str) -> list[str]:
        """Return the lines of a script that make the interface :data:`INTERFACE` appear in the guest."""

    @abstractmethod
    def port(self, modprobe: str) -> list[str]:
        """Return the lines of a script that make the link :data:`PORT` in the guest."""

    def settings(self) -> list[str]:
        """Return the lines of a script that prepare the guest's kernel."""
        return []
