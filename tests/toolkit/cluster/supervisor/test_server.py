"""A supervisor whose clients take all that it has."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.support.clusters import done, state
from tests.support.waiting import eventually
from toolkit.cluster.supervisor import client, wire
from toolkit.machine.leases import leases

__all__ = ["state"]

ROOM = 8
"""Descriptors that the supervisor may still open."""


def test_supervisor_answers_after_clients_have_taken_all_its_descriptors(state: Path) -> None:
    done("up", "two-peers")
    (lease,) = leases()
    with client._connected(lease, 5.0) as connection:
        supervisor = wire.check_peer(connection).pid
    descriptors = Path(f"/proc/{supervisor}/fd")
    limit = max(int(each.name) for each in descriptors.iterdir()) + 1 + ROOM
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (limit, limit))
    with ExitStack() as open_connections, wire.short_path(lease.directory) as path:
        half_requests = [open_connections.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(ROOM + 4)]
        for each in half_requests:
            each.connect(path)
            each.send(b'{"do": ')
        eventually(lambda: len(list(descriptors.iterdir())) == limit)
        # The connections stay open. The supervisor refuses those that send nothing more, and so gets to this one.
        assert client.ask(lease, "proxies", timeout_s=20) == []
        half_requests[0].settimeout(5)
        assert "no complete request" in wire.receive(half_requests[0])["error"]
    assert done("down") == "two-peers: down\n"
