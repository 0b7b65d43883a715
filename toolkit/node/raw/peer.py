"""A party of a lab that is not a node: the script writes and reads the frames on its links."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any

from messenger.cephx.exchange import ConMode
from messenger.denc.address import EntityAddr
from messenger.denc.features import MSGR2_SUPPORTED, Msgr2Feature
from messenger.link import Protocol
from messenger.v2.compressor import Algorithm
from toolkit.errors import ScenarioFailed
from toolkit.node import NodeSpec
from toolkit.node.raw.link import Identity, Other, RawLink
from toolkit.node.raw.stream import PATIENCE_S, Stream
from toolkit.node.raw.v1 import RawV1Link
from toolkit.node.raw.v2 import RawV2Link


class RawHost(ABC):
    """The byte streams that a backend provides for a raw peer."""

    @abstractmethod
    def dial(self, name: str, addr: EntityAddr) -> Stream:
        """Connect to the node ``name``, which listens at ``addr``.

        Raises:
            ScenarioFailed: it cannot be reached.
        """

    @abstractmethod
    def accept(self, timeout_s: float) -> tuple[Stream, EntityAddr] | None:
        """Return the next stream that was dialled to this host; None if there is none in time.

        Returns:
            The stream, and the address of its other end.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all streams."""


class RawPeer:
    """A peer whose frames the script writes and reads, on any number of links.

    Args:
        spec: its name, entity and addresses; policy, mode and options are ignored.
        host: source of its byte streams.
        nodes: returns the specs of the nodes that it may dial, by name.
        wall_s: returns Unix time.
        note: takes a description of each step, for the history.
        protocol: its protocol.
    """

    def __init__(
        self,
        spec: NodeSpec,
        host: RawHost,
        nodes: Callable[[], dict[str, NodeSpec]],
        wall_s: Callable[[], float],
        note: Callable[[str], None],
        protocol: Protocol,
    ) -> None:
        self.spec = spec
        self.protocol = protocol
        self.host = host
        self.links: list[Any] = []
        """All links so far, oldest first."""
        self._nodes = nodes
        self._wall_s = wall_s
        self._note = note
        self._rng = Random(f"raw {spec.seed} {spec.name}")

    @property
    def name(self) -> str:
        """Name of the peer in the scenario."""
        return self.spec.name

    @property
    def identity(self) -> Identity:
        """The identity that it announces, with its own tickets."""
        spec = self.spec
        spec.peer_entities |= {
            node.name: node.entity for node in self._nodes().values()
        }  # for whom it has tickets
        return Identity(
            spec.entity_name, spec.addrs, spec.auth_client(), spec.auth_server(), self._rng, self._wall_s
        )

    def dial(self, node: str, **options: Any) -> Any:  # noqa: ANN401 - a link of either protocol
        """Connect to a node and return the link; nothing is sent on it yet.

        Args:
            node: name of the node.
            options: further arguments of :class:`RawV2Link` or :class:`RawV1Link`.

        Raises:
            ScenarioFailed: the node cannot be reached.
        """
        self._note(f"dials {node}")
        addr = self._nodes()[node].addrs.front
        return self._link(self.host.dial(node, addr), node, None, options)

    def accept(self, node: str = "a", *, within_s: float = PATIENCE_S, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Wait for the next link that a node dials.

        Args:
            node: the node that is expected to dial.
            within_s: seconds to wait.
            options: as for :meth:`dial`.

        Raises:
            ScenarioFailed: no node dials in time.
        """
        self._note(f"waits for a dial of {node}")
        found = self.host.accept(within_s)
        if found is None:
            raise ScenarioFailed(f"{node} did not dial {self.name} within {within_s:g} s")
        stream, socket_addr = found
        return self._link(stream, node, socket_addr, options)

    def expect_no_dial(self, seconds: float) -> None:
        """Let time pass and check that no node dials.

        Raises:
            ScenarioFailed: a node does.
        """
        self._note(f"expects no dial for {seconds:g} s")
        if self.host.accept(seconds) is not None:
            raise ScenarioFailed(f"{self.name} was dialled within {seconds:g} s")

    def _link(self, stream: Stream, node: str, socket_addr: EntityAddr | None, options: dict[str, Any]) -> RawLink:
        spec = self._nodes()[node]
        own, other = self.identity, Other(spec.entity_name.type, spec.addrs.front)
        where: dict[str, Any] = {"connecting": socket_addr is None, "socket_addr": socket_addr}
        link: RawLink
        if self.protocol is Protocol.V1:
            link = RawV1Link(stream, own, other, **where, **options)
        else:
            link = RawV2Link(stream, own, other, **where, **(_options_of(self.spec.mode) | options))
            if not link.connecting:
                link.server_cookie += len(self.links)
            elif self.links:  # what it would resume
                link.server_cookie = self.links[-1].server_cookie
        number = link.global_seq = len(self.links) + 1
        link.note = lambda what: self._note(f"on link {number} {what}")
        self.links.append(link)
        return link

    def close(self) -> None:
        """Close all links."""
        self.host.close()


def _options_of(mode: str) -> dict[str, Any]:
    """Return the options of a link for the mode of the nodes."""
    if mode == "compressed":
        return {"mode": ConMode.CRC, "features": MSGR2_SUPPORTED, "algorithm": Algorithm.SNAPPY}
    return {"mode": ConMode.SECURE if mode == "secure" else ConMode.CRC, "features": Msgr2Feature.REVISION_1}
