"""Commands that inspect a node's messenger and limit its process."""

import resource
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messenger.driver import Connection, Driver
from messenger.errors import LocalError
from messenger.link import Link

if TYPE_CHECKING:
    from messenger.transport.rdma.stream import RdmaStream


class Inside:
    """Commands of a node on its messenger and its process."""

    _connections: dict[str, Connection]
    """Connections by the names of their peers."""
    _descriptors = 0
    """Limit on descriptors before :meth:`limit_descriptors` lowered it."""

    @property
    @abstractmethod
    def driver(self) -> Driver:
        """The messenger that the node runs on."""

    def own_address(self) -> dict[str, str]:
        """Return the messenger's own addresses, as it has learnt them."""
        return {"addrs": str(self.driver.addrs)}

    def limit_descriptors(self, limited: bool) -> None:  # noqa: FBT001 - JSON
        """Limit the process to the descriptors it has open; ``limited=False`` restores the limit."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limited:
            self._descriptors = soft
            # the highest one is that of the listing itself
            soft = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        else:
            soft = self._descriptors
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def limit_memory(self, more_bytes: int | None) -> None:
        """Limit the address space that the process can still allocate; None removes the limit."""
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        soft = hard if more_bytes is None else pages * resource.getpagesize() + more_bytes
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def perf_dump(self) -> dict[str, Any]:
        """Return the messenger's perf counters."""
        return dict(self.driver.perf_dump())

    def snapshot(self) -> dict[str, Any]:
        """Return the endpoint's counters."""
        return self.driver.endpoint.snapshot()

    def resources(self) -> dict[str, Any]:
        """Return further resources that the endpoint has in use."""
        return self.driver.endpoint.resources()

    def fail_queue_pair(self, peer: str) -> None:
        """Set the queue pair of the link with a peer to its error state.

        Raises:
            LocalError: there is no link with it now, or it does not use RDMA.
        """
        try:
            self._required_stream(peer).pair.fail()
        except OSError as error:
            raise LocalError(f"queue pair with {peer}: {error.strerror}") from None

    def withhold_receives(self, peer: str, withheld: bool) -> None:  # noqa: FBT001 - JSON
        """Post no receive buffers again for the link with a peer; ``withheld=False`` posts them, if it exists.

        Raises:
            LocalError: there is no link with it now, or it does not use RDMA.
        """
        if withheld:
            self._required_stream(peer).withhold_receives(withheld=True)
        elif (stream := self._rdma_stream(peer)) is not None:
            stream.withhold_receives(withheld=False)

    def _rdma_stream(self, peer: str) -> "RdmaStream | None":
        # imported here, because few nodes use RDMA, and simulated nodes have no event loop
        from messenger.messenger import Messenger  # noqa: PLC0415
        from messenger.transport.rdma.stream import RdmaStream  # noqa: PLC0415

        connection, driver = self._connections.get(peer), self.driver
        link = connection.session.link if connection is not None else None
        stream = driver.stream(link.id) if isinstance(driver, Messenger) and isinstance(link, Link) else None
        return stream if isinstance(stream, RdmaStream) else None

    def _required_stream(self, peer: str) -> "RdmaStream":
        stream = self._rdma_stream(peer)
        if stream is None:
            raise LocalError(f"no queue pair with {peer} now")
        return stream

    def use_up_nonces(self, peer: str, left: int) -> None:
        """Advance the ciphers of the link with a peer, so that ``left`` nonces remain in each direction."""
        connection = self._connections.get(peer)
        link = connection.session.link if connection is not None else None
        for cipher in link.ciphers if isinstance(link, Link) else ():
            cipher.use_up(left)

    def session(self, peer: str) -> dict[str, Any]:
        """Return the state of the session with a peer; empty if there is none. It opens no session."""
        connection = self._connections.get(peer)
        return {} if connection is None else self._about(connection)

    def sessions(self) -> dict[str, Any]:
        """Return the states of all sessions, with the names of their peers."""
        return {
            "sessions": [{"peer": peer, **self._about(each)} for peer, each in list(self._connections.items())]
        }

    @staticmethod
    def _about(connection: Connection) -> dict[str, Any]:
        session = connection.session
        numbers = {name: getattr(session, name) for name in ("keepalive_acked_s", "old_messages", "backoff_s")}
        about = {"id": session.id, "state": session.state.value, "addrs": str(session.peer_addrs)}
        return {**about, **session.counters(), **numbers}

    def holdings(self) -> dict[str, Any]:
        """Return resources of all shards: links, bytes of incomplete frames, throttles, timers."""
        endpoint = self.driver.endpoint
        hosts = [endpoint, *endpoint.shards.hosts]
        links = [link for host in hosts for link in host.links]
        throttles = [throttle for host in hosts for throttle in host.all_throttles]
        return {
            "links": len(links),
            "held_bytes": sum(link.held_bytes for link in links),
            "unwritten_bytes": sum(link.unwritten_bytes for link in links),
            "throttled": {
                name: sum(throttle.value for throttle in throttles if throttle.name == name)
                for name in sorted({throttle.name for throttle in throttles})
            },
            "timers": sum(host.next_deadline() is not None for host in hosts),
            "sessions": len(endpoint.sessions),
        }
