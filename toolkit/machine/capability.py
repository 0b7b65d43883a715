"""A capability of the machine: its name, its purpose, and the probe that detects it."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_INSTALL = "apt-get install -y"
_INSTALL_ALL = f"env DEBIAN_FRONTEND=noninteractive {_INSTALL} --no-install-recommends"
"""Installs without questions from apt-get or from a package's configuration."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a probe. A missing capability without ``packages`` and ``commands`` cannot be added here."""

    available: bool
    detail: str
    """The version or place if available, otherwise the reason."""
    packages: tuple[str, ...] = ()
    """Debian packages that provide it."""
    commands: tuple[str, ...] = ()
    """Shell commands that provide it once the packages are installed, in order, such as starting an engine."""

    @property
    def remedy(self) -> str | None:
        """The command that provides it; None if it is available already, or cannot be on this machine."""
        return " && ".join(_steps([self], _INSTALL)) or None


@dataclass(frozen=True, slots=True)
class Capability:
    """A feature of the machine that a test, scenario or backend may require."""

    name: str
    enables: str
    """Its purpose, in a few words."""
    probe: Callable[[], Finding]

    def examine(self) -> Finding:
        """Probe the machine. Changes nothing on it, takes less than two seconds, never raises."""
        try:
            return self.probe()
        except Exception as error:  # noqa: BLE001 - on a machine this odd the capability counts as absent
            return Finding(available=False, detail=f"probe failed: {type(error).__name__}: {error}")


def survey(capabilities: Sequence[Capability]) -> list[tuple[Capability, Finding]]:
    """Examine all capabilities in parallel, since probes mostly wait for programs."""
    with ThreadPoolExecutor(max_workers=len(capabilities) or 1) as pool:
        return list(zip(capabilities, pool.map(Capability.examine, capabilities), strict=True))


def not_installed(detail: str, packages: tuple[str, ...], *commands: str) -> Finding:
    """Return the finding for a missing program; it has packages only if apt-get exists.

    Args:
        detail: what is missing.
        packages: Debian packages that provide it.
        commands: shell commands to run once the packages are installed.
    """
    if shutil.which("apt-get"):
        return Finding(available=False, detail=detail, packages=packages, commands=commands)
    hint = f"{detail}; there is no apt-get here, Debian has it in {' '.join(packages)}"
    return Finding(available=False, detail=hint)


def install_command(findings: Sequence[Finding]) -> str:
    """Return one command that provides everything missing, as far as possible; empty if there is nothing to do."""
    steps = _steps(findings, _INSTALL_ALL)
    if any(finding.packages for finding in findings if not finding.available):
        steps.insert(0, f"{sudo()}apt-get update")
    return " && ".join(steps)


def sudo() -> str:
    """The prefix that a command for root needs when this user types it."""
    return "" if os.geteuid() == 0 else "sudo "


def own_command() -> str:
    """Return the shell command for msgrlab: as found in PATH, or beside the running interpreter."""
    beside = Path(sys.executable).with_name("msgrlab")
    if shutil.which("msgrlab") or not beside.exists():
        return "msgrlab"
    here = Path.cwd()
    is_below = here != Path("/") and beside.is_relative_to(here)  # supervisors are in /, their readers are not
    return str(beside.relative_to(here) if is_below else beside)


def _steps(findings: Sequence[Finding], apt_install: str) -> list[str]:
    """Return the install command, then each further command once; findings list their prerequisites first."""
    missing = [finding for finding in findings if not finding.available]
    packages = sorted({package for finding in missing for package in finding.packages})
    steps = [f"{sudo()}{apt_install} {' '.join(packages)}"] if packages else []
    return steps + list(dict.fromkeys(command for finding in missing for command in finding.commands))
