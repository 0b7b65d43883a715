"""Labels that mark everything a cluster makes, so that it can be found after a crash."""

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from messenger.errors import LocalError

PROCESS_VARIABLE = "MSGRLAB_CLUSTER"
"""Environment variable of every process of a cluster; its value is the cluster's label."""
DOCKER_LABEL = "msgrlab.cluster"
"""Key of the label on containers, networks, volumes and services; its value is the cluster's label."""
BLANK = "?" * 40
"""Value of that variable in a program that is started before its cluster is known; longer than any label."""
INTERFACE_NAME_BYTES = 15
_ENVIRONMENT_START, _ENVIRONMENT_END = 47, 48
"""Fields of /proc/self/stat after the process name: addresses of the environment as other processes see it."""

_NAME = re.compile("[a-z][a-z0-9-]{0,29}")


@dataclass(frozen=True, slots=True)
class Label:
    """Marks the objects of one cluster."""

    name: str
    """Name of the cluster; unique among those that are up."""
    number: int
    """Number for names in the kernel, which are short; unique among clusters that are up."""
    token: str
    """Distinguishes this cluster from earlier ones of the same name."""

    def __str__(self) -> str:
        return f"{self.name}.{self.token}"

    def namespace(self, node: str) -> str:
        """Return the name of a node's network namespace."""
        return f"{self.prefix}-{node}"

    def interface(self, *parts: object) -> str:
        """Return the name of an interface; the parts must distinguish it from others of the cluster.

        Raises:
            LocalError: it is too long for the kernel.
        """
        name = self.prefix + "".join(str(part) for part in parts)
        if len(name) > INTERFACE_NAME_BYTES:
            raise LocalError(f"{name!r} is too long for an interface ({INTERFACE_NAME_BYTES} bytes)")
        return name

    def table(self, purpose: str) -> str:
        """Return the name of a table of nftables in the machine's own namespace."""
        return f"msgrlab_{purpose}_{self.prefix}"

    @property
    def prefix(self) -> str:
        """Prefix of the names of all its namespaces and interfaces; tables have it at the end."""
        return f"ml{self.number}"


def check_name(name: str) -> str:
    """Return the name if a cluster may have it.

    Raises:
        LocalError: it may not.
    """
    if not is_name(name):
        raise LocalError(f"{name!r} is no name for a cluster: a lower-case letter, then up to 29 of a-z 0-9 -")
    return name


def is_name(text: str) -> bool:
    """True if a cluster may have this name."""
    return _NAME.fullmatch(text) is not None


def label_this_process(label: str) -> None:
    """Write a cluster's label over the blank one, where other processes read it (/proc/PID/environ)."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    start, end = int(fields[_ENVIRONMENT_START]), int(fields[_ENVIRONMENT_END])
    blank = f"{PROCESS_VARIABLE}={BLANK}".encode()
    place = ctypes.string_at(start, end - start).index(blank)
    ctypes.memmove(start + place, f"{PROCESS_VARIABLE}={label}".encode().ljust(len(blank), b"\0"), len(blank))
    os.environ[PROCESS_VARIABLE] = label
