"""A capability of the machine: its name, what it makes possible, and the probe that finds out about it."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_INSTALL = "apt-get install -y"
_INSTALL_ALL = f"env DEBIAN_FRONTEND=noninteractive {_INSTALL} --no-install-recommends"
"""Asks nothing: neither apt-get itself nor a package that it configures."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a probe. A missing capability without ``packages`` and ``commands`` cannot be added here."""

    available: bool
    detail: str
    """The version or place when available, the reason when not."""
    packages: tuple[str, ...] = ()
    """Debian packages that bring it."""
    commands: tuple[str, ...] = ()
    """Shell commands that add it once the packages are installed, in order: start an engine, make an image."""

    @property
    def remedy(self) -> str | None:
        """The one command that makes it available; None when it is already, or cannot be on this machine."""
        return " && ".join(_steps([self], _INSTALL)) or None


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a machine may offer and a test, scenario or backend may ask for."""

    name: str
    enables: str
    """What it is for, in a few words."""
    probe: Callable[[], Finding]

    def examine(self) -> Finding:
        """Probe the machine. Changes nothing on it, takes less than two seconds, never raises."""
        try:
            return self.probe()
        except Exception as error:  # noqa: BLE001 - on a machine this odd the capability counts as absent
            return Finding(available=False, detail=f"probe failed: {type(error).__name__}: {error}")


def survey(capabilities: Sequence[Capability]) -> list[tuple[Capability, Finding]]:
    """Examine all of them at once, since each spends its time waiting for a program to answer."""
    with ThreadPoolExecutor(max_workers=len(capabilities) or 1) as pool:
        return list(zip(capabilities, pool.map(Capability.examine, capabilities), strict=True))


def not_installed(detail: str, packages: tuple[str, ...], *commands: str) -> Finding:
    """The finding for a missing program, with its packages where there is an apt-get to install them.

    Args:
        detail: what is missing.
        packages: Debian packages that bring it.
        commands: shell commands to run once the packages are installed.
    """
    if shutil.which("apt-get"):
        return Finding(available=False, detail=detail, packages=packages, commands=commands)
    hint = f"{detail}; there is no apt-get here, Debian has it in {' '.join(packages)}"
    return Finding(available=False, detail=hint)


def install_command(findings: Sequence[Finding]) -> str:
    """The one command that adds everything missing that can be added; empty when there is nothing to add."""
    steps = _steps(findings, _INSTALL_ALL)
    if any(finding.packages for finding in findings if not finding.available):
        steps.insert(0, f"{sudo()}apt-get update")
    return " && ".join(steps)


def sudo() -> str:
    """The prefix that a command for root needs when this user types it."""
    return "" if os.geteuid() == 0 else "sudo "


def own_command() -> str:
    """The shell's word for this project's command: found in PATH, or beside the interpreter that runs this."""
    beside = Path(sys.executable).with_name("msgrlab")
    if shutil.which("msgrlab") or not beside.exists():
        return "msgrlab"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _steps(findings: Sequence[Finding], apt_install: str) -> list[str]:
    """Packages first, then each command once; a finding has all commands that it depends on before its own."""
    missing = [finding for finding in findings if not finding.available]
    packages = sorted({package for finding in missing for package in finding.packages})
    steps = [f"{sudo()}{apt_install} {' '.join(packages)}"] if packages else []
    return steps + list(dict.fromkeys(command for finding in missing for command in finding.commands))
