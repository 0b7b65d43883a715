"""Probes of the kernel: of namespaces by creating one, of features by its configuration and modules."""

import gzip
import os
import platform
import shutil
import socket
from dataclasses import replace
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.capability import Finding, not_installed
from toolkit.machine.programs import run
from toolkit.network import rdma
from toolkit.network.wire import forwarding

ROOT = Path("/")


def network_namespaces() -> Finding:
    """Create a network namespace in a short-lived child process; in a user namespace unless we are root."""
    if shutil.which("unshare") is None:
        return not_installed("no unshare in PATH", ("util-linux",))
    if os.geteuid() == 0:
        attempt, way = run("unshare", "--net", "true"), "as root"
    else:
        attempt, way = run("unshare", "--user", "--map-root-user", "--net", "true"), "in a user namespace"
    if attempt.returncode == 0:
        return Finding(available=True, detail=way)
    return Finding(available=False, detail=f"refused {way}: {attempt.stderr.strip()}")


def packet_sockets() -> Finding:
    """Open a packet socket; protocol 0, so that it receives nothing."""
    if not hasattr(socket, "AF_PACKET"):
        return Finding(available=False, detail="only Linux has packet sockets")
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        return Finding(available=False, detail="needs CAP_NET_RAW; run as root (sudo msgrlab ...)")
    except OSError as error:
        return Finding(available=False, detail=f"no packet sockets: {error.strerror}")
    return Finding(available=True, detail="packet sockets can be opened")


def tun_device(path: Path = ROOT / "dev/net/tun") -> Finding:
    """Open and close the device of tun and tap interfaces."""
    return _opened(path)


def netem(root: Path = ROOT) -> Finding:
    """Check for netem: delay, loss, duplication and reordering by the kernel."""
    return feature("CONFIG_NET_SCH_NETEM", "sch_netem", root)


def forwarding_rules() -> Finding:
    """Load a rule that forwards frames from an interface, in a short-lived namespace."""
    if shutil.which("nft") is None:
        return not_installed("no nft in PATH", ("nftables",))
    why = forwarding.why_not()
    return Finding(available=not why, detail=why or "nftables forwards frames at an interface")


def soft_roce(root: Path = ROOT) -> Finding:
    """Check for soft-RoCE (RDMA over Ethernet): its module, and the scope of its devices once it is loaded."""
    finding = feature("CONFIG_RDMA_RXE", "rdma_rxe", root)
    if not finding.available or not (root / "sys/module/rdma_rxe").exists():
        return finding
    try:
        scope = "shared by network namespaces" if rdma.are_shared() else "each in one network namespace"
        count = len(rdma.devices())
    except LocalError as error:
        return Finding(available=False, detail=str(error))
    return replace(finding, detail=f"{finding.detail}; {count} devices, {scope}")


def feature(option: str, module: str, root: Path = ROOT) -> Finding:
    """Check for a kernel feature: built in, or a module that is loaded or can be loaded. Loads nothing."""
    release = platform.release()
    config = _config(root, release)
    if f"{option}=y" in config:
        return Finding(available=True, detail="built into the kernel")
    if (root / "sys/module" / module).exists():
        return Finding(available=True, detail="module, loaded")
    modules = root / "lib/modules" / release
    if _listed(modules / "modules.builtin", module):
        return Finding(available=True, detail="built into the kernel")
    if _listed(modules / "modules.dep", module):
        return Finding(available=True, detail="module, loads when first used")
    if f"{option}=m" in config:
        return Finding(available=False, detail=f"module {module} of kernel {release} is not installed")
    if config:
        return Finding(available=False, detail=f"kernel {release} is built without {option}")
    return Finding(available=False, detail=f"kernel {release} has no module {module} and hides its configuration")


def _config(root: Path, release: str) -> list[str]:
    """Return the lines of the kernel's build configuration; empty if it is not published."""
    running, packaged = root / "proc/config.gz", root / f"boot/config-{release}"
    if running.exists():
        return gzip.decompress(running.read_bytes()).decode().splitlines()
    try:
        return packaged.read_text().splitlines()
    except OSError:
        return []


def _listed(index: Path, module: str) -> bool:
    """True if depmod's index lists the module; file names may have dashes instead of underscores."""
    try:
        text = index.read_text()
    except OSError:
        return False
    return f"/{module}.ko" in text or f"/{module.replace('_', '-')}.ko" in text


def _opened(path: Path) -> Finding:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return Finding(available=False, detail=f"there is no {path}")
    except OSError as error:
        return Finding(available=False, detail=f"{path} cannot be opened: {error.strerror}")
    return Finding(available=True, detail=f"{path} can be opened")
