"""A party of a lab that is no node: its links are spoken by hand."""

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
    """What a backend provides of a raw peer: its byte streams."""

    @abstractmethod
    def dial(self, name: str, addr: EntityAddr) -> Stream:
        """A stream to the node ``name``, which listens at ``addr``.

        Raises:
            ScenarioFailed: it cannot be had.
        """

    @abstractmethod
    def accept(self, timeout_s: float) -> tuple[Stream, EntityAddr] | None:
        """The oldest stream that was dialled to this host and not taken yet; None if there is none in time.

        Returns:
            The stream, and the address of its other end.
        """

    @abstractmethod
    def close(self) -> None:
        """End everything."""


class RawPeer:
    """A peer whose frames the script sends by hand, on any number of links.

    Args:
        spec: its name, entity and addresses; policy, mode and options are ignored.
        host: where its links come from.
        nodes: the specs of the nodes that it may dial, by name.
        wall_s: Unix time.
        note: takes what it does, for the history.
        protocol: what it speaks.
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
        """Every link there has been, oldest first."""
        self._nodes = nodes
        self._wall_s = wall_s
        self._note = note
        self._rng = Random(f"raw {spec.seed} {spec.name}")

    @property
    def name(self) -> str:
        """What the scenario calls it."""
        return self.spec.name

    @property
    def identity(self) -> Identity:
        """The identity that it announces, with tickets of its own."""
        spec = self.spec
        spec.peer_entities |= {
            node.name: node.entity for node in self._nodes().values()
        }  # for whom it has tickets
        return Identity(
            spec.entity_name, spec.addrs, spec.auth_client(), spec.auth_server(), self._rng, self._wall_s
        )

    def dial(self, node: str, **options: Any) -> Any:  # noqa: ANN401 - a link of either protocol
        """A new link to a node; nothing is sent on it yet.

        Args:
            node: whom to dial.
            options: of :class:`RawV2Link` or :class:`RawV1Link`, other than those that the lab's way decides.

        Raises:
            ScenarioFailed: the node cannot be reached.
        """
        self._note(f"dials {node}")
        addr = self._nodes()[node].addrs.front
        return self._link(self.host.dial(node, addr), node, None, options)

    def accept(self, node: str = "a", *, within_s: float = PATIENCE_S, **options: Any) -> Any:  # noqa: ANN401 - as above
        """The next link that a node dials; waits for it.

        Args:
            node: the node that is expected to dial.
            within_s: how long to wait.
            options: as for :meth:`dial`.

        Raises:
            ScenarioFailed: no node dials in time.
        """
        self._note(f"waits for a dial of {node}")
        found = self.host.accept(within_s)
        if found is None:
            raise ScenarioFailed(f"{node} was to dial {self.name} within {within_s:g} s")
        stream, socket_addr = found
        return self._link(stream, node, socket_addr, options)

    def expect_no_dial(self, seconds: float) -> None:
        """Let time pass, during which no node may dial.

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
        """End everything."""
        self.host.close()


def _options_of(mode: str) -> dict[str, Any]:
    """How a link is protected when nodes are in that mode."""
    if mode == "compressed":
        return {"mode": ConMode.CRC, "features": MSGR2_SUPPORTED, "algorithm": Algorithm.SNAPPY}
    return {"mode": ConMode.SECURE if mode == "secure" else ConMode.CRC, "features": Msgr2Feature.REVISION_1}
