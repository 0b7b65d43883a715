"""Check that containers on a network reach each other: a firewall between them would look like hanging daemons."""

import contextlib
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from messenger.errors import LocalError
from toolkit.cluster.backends.docker.host import ContainerHost
from toolkit.errors import Unsupported
from toolkit.machine import bridges

_TIMEOUT_S = 3.0
"""Long enough for a second SYN, which follows after a second."""
_LISTEN = """\
import socket, sys
listening = socket.create_server((sys.argv[1], 0), family=int(sys.argv[2]))
listening.settimeout(10)
print(listening.getsockname()[1], flush=True)
listening.accept()
"""
_DIAL = """\
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))
"""


def require_reachable(hosts: Mapping[str, ContainerHost], networks: Sequence[str]) -> None:
    """Check that the first two containers of each network reach each other.

    Raises:
        Unsupported: they do not; the message has the likely cause and a remedy.
    """
    for network in networks:
        on_it = [host for host in hosts.values() if network in host.addresses]
        for dialler, dialled in pairwise(on_it[:2]):
            if not _reaches(dialler, dialled, dialled.addresses[network]):
                cause = _cause(dialler, dialled, network)
                names = f"{dialler.name} and {dialled.name}"
                raise Unsupported(f"network {network}: {names} do not reach each other: {cause}")


def _reaches(dialler: ContainerHost, dialled: ContainerHost, address: str) -> bool:
    if dialler.namespace is None or dialled.namespace is None:
        return _reaches_by_programs(dialler, dialled, address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as closing:
        listening = closing.enter_context(
            dialled.inside(partial(socket.create_server, (address, 0), family=family))
        )
        target = address, listening.getsockname()[1]
        try:
            dialler.inside(partial(socket.create_connection, target, _TIMEOUT_S)).close()
        except OSError:
            return False
    return True


def _reaches_by_programs(dialler: ContainerHost, dialled: ContainerHost, address: str) -> bool:
    """Check reachability with programs in the containers, whose namespaces this process cannot enter."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    program = dialled.start(["python3", "-I", "-c", _LISTEN, address, str(int(family))], piped=True)
    assert program.stdin is not None
    assert program.stdout is not None
    with program.stdin, program.stdout:
        port = program.stdout.readline().decode().strip()
        try:
            dialler.run("python3", "-I", "-c", _DIAL, address, port, str(_TIMEOUT_S))
        except LocalError:
            return False
        return True


def _cause(dialler: ContainerHost, dialled: ContainerHost, network: str) -> str:
    if dialler.place != dialled.place:
        return "the machines of a swarm need UDP port 4789 between them"
    if not dialler.place.startswith("unix://"):
        return f"the firewall of the engine's machine ({dialler.place}) drops what bridges forward"
    setting = bridges.filtering(6 if ":" in dialled.addresses[network] else 4)
    if not setting:
        return "this machine's firewall drops what bridges forward"
    return (
        f"this machine's firewall drops what this engine's bridges forward ({setting} is on, and another Docker"
        f" engine or a firewall has set FORWARD to DROP): {bridges.remedy(setting)}, or DOCKER_HOST names the"
        " engine that keeps the firewall"
    )
