"""A swarm of two Docker engines, each in a network namespace of its own, like two machines on one network."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.engines import Engine, own_engine
from toolkit.network import namespaces

_ADDRESSES = ("10.213.77.1", "10.213.77.2")


@contextmanager
def two_engines(image: str) -> Iterator[tuple[Engine, Engine]]:
    """Two engines that are a swarm, the first one its manager.

    Args:
        image: image of the engine that is meant, which both get.
    """
    with ExitStack() as undo:
        machines = [_machine(undo, number) for number in (1, 2)]
        _cable(*machines)
        one, two = (undo.enter_context(own_engine(machine, in_memory=True)) for machine in machines)
        for engine in (one, two):  # else it would take leave of the other one for ten seconds
            undo.callback(engine.lose_power)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda engine: engine.load(image), (one, two)))
        first, second = _ADDRESSES
        one.run("swarm", "init", "--advertise-addr", first, "--listen-addr", first)
        token = one.run("swarm", "join-token", "--quiet", "worker").stdout.decode().strip()
        own = ("--advertise-addr", second, "--listen-addr", second)
        two.run("swarm", "join", "--token", token, *own, f"{first}:2377")
        yield one, two


def _machine(undo: ExitStack, number: int) -> Path:
    """Make a network namespace."""
    machine = namespaces.create(f"engine{os.getpid()}-{number}")
    undo.callback(subprocess.run, ["ip", "netns", "delete", machine.name], check=False)
    return machine


def _cable(one: Path, two: Path) -> None:
    """Connect two network namespaces."""
    both = f"-n {one.name} link add cable type veth peer name cable netns {two.name}"
    subprocess.run(["ip", *both.split()], check=True)
    for machine, address in zip((one, two), _ADDRESSES, strict=True):
        own = ["ip", "-n", machine.name]
        subprocess.run([*own, "address", "add", f"{address}/24", "dev", "cable"], check=True)
        subprocess.run([*own, "link", "set", "cable", "up"], check=True)
