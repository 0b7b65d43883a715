"""A firewall that drops what bridges forward, in a network namespace with a firewall of its own."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.machine import bridges
from toolkit.machine.programs import run
from toolkit.network import namespaces
from toolkit.network.namespaces import inside, set_sysctl

pytestmark = pytest.mark.needs("docker", "netns")


@pytest.fixture
def firewalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A namespace whose firewall drops what it forwards; the engine's bridge is called br-ours."""
    monkeypatch.setattr(bridges, "_bridges", lambda: ["br-ours"])
    name = f"t{uuid.uuid4().hex[:10]}"
    namespace = namespaces.create(name)
    try:
        inside(namespace, lambda: set_sysctl("bridge/bridge-nf-call-iptables", "1"))
        if not inside(namespace, bridges.filtering):
            pytest.skip("this kernel has no br_netfilter")
        assert inside(namespace, lambda: run("iptables", "-P", "FORWARD", "DROP")).returncode == 0
        yield namespace
    finally:
        run("ip", "netns", "delete", name)


def test_a_firewall_that_drops_is_shown_with_the_remedy(firewalled: Path) -> None:
    found = inside(firewalled, bridges.docker_bridges)
    assert not found.available
    assert found.remedy is not None
    assert found.remedy.endswith("sysctl net.bridge.bridge-nf-call-iptables=0")


@pytest.mark.parametrize(
    "command",
    [
        ("iptables", "-A", "FORWARD", "-i", "br-ours", "-o", "br-ours", "-j", "ACCEPT"),
        ("iptables", "-P", "FORWARD", "ACCEPT"),
        ("sysctl", "net.bridge.bridge-nf-call-iptables=0"),
    ],
    ids=["the engine's own rule", "forwards by default", "bridges not filtered"],
)
def test_bridges_are_available_if_the_firewall_forwards(firewalled: Path, command: tuple[str, ...]) -> None:
    assert inside(firewalled, lambda: run(*command)).returncode == 0
    assert inside(firewalled, bridges.docker_bridges).available
