"""Check whether this machine's firewall drops packets that bridges forward, as a Docker engine may set it to."""

import os
import shutil
from pathlib import Path

from toolkit.machine.capability import Finding, not_installed, sudo
from toolkit.machine.programs import docker, run

_SYSCTLS = {4: "net.bridge.bridge-nf-call-iptables", 6: "net.bridge.bridge-nf-call-ip6tables"}
_DOCKER_BRIDGE = "docker0"
"""The bridge of the network named ``bridge``; other bridges are named after the ids of their networks."""
_ID_CHARS = 12


def filtering(version: int = 4) -> str:
    """Return the sysctl that makes the firewall see IPv4 or IPv6 packets on bridges; empty if it is off."""
    name = _SYSCTLS[version]
    try:
        value = Path("/proc/sys", *name.split(".")).read_text("ascii")
    except OSError:
        return ""  # the kernel has no such filter, or has not loaded it
    return name if value.strip() != "0" else ""


def remedy(setting: str) -> str:
    """Return the command that makes bridges forward without the firewall."""
    return f"{sudo()}sysctl {setting}=0"


def docker_bridges() -> Finding:
    """Find out whether the Docker engine's bridges forward, as far as the firewall's rules show."""
    engine = docker()
    if not engine.available:
        return engine
    setting = filtering()
    if not setting:
        return Finding(available=True, detail="the firewall does not see what bridges forward")
    if os.geteuid() != 0:
        return Finding(available=True, detail=f"{setting} is on; what the firewall drops, only root may see")
    if shutil.which("iptables") is None:
        return not_installed("no iptables to read the firewall with", ("iptables",))
    rules = run("iptables", "-S").stdout
    if "-P FORWARD DROP" not in rules:
        return Finding(available=True, detail="the firewall forwards by default")
    if any(bridge in rules for bridge in _bridges()):
        return Finding(available=True, detail="the engine's rules let its bridges forward")
    detail = f"the firewall drops what the engine's bridges forward ({setting} is on, policy of FORWARD is DROP)"
    return Finding(available=False, detail=detail, commands=(remedy(setting),))


def _bridges() -> list[str]:
    """Return the interfaces of the engine's bridges."""
    listed = run("docker", "network", "ls", "--filter", "driver=bridge", "--format", "{{.ID}} {{.Name}}").stdout
    pairs = [line.split() for line in listed.splitlines()]
    return [_DOCKER_BRIDGE if name == "bridge" else f"br-{network[:_ID_CHARS]}" for network, name in pairs]
