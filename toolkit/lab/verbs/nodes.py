"""Verbs about nodes: which there are, how they start, die, freeze and come back."""

from collections.abc import Mapping, Sequence
from typing import Any

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.link import Protocol
from messenger.rules import rules_of
from toolkit.lab.core import LabCore
from toolkit.node import NodeSpec


class NodeVerbs(LabCore):
    """Nodes."""

    def node(
        self,
        name: str,
        entity: str,
        policy: str,
        *,
        listens: bool = True,
        protocols: str = "",
        host: str = "127.0.0.1",
        throttle: Mapping[str, int] | None = None,
        auth: Mapping[str, Any] | None = None,
        addr: str = "",
        requires: int = 0,
        **options: Any,  # noqa: ANN401 - Config options
    ) -> None:
        """Describe a node; all are described before the first is started.

        Args:
            name: what the scenario calls it.
            entity: its messenger name, TYPE.NUM.
            policy: towards every peer; others for some types of peers may follow (``TYPE=POLICY``).
            listens: whether peers can dial it.
            protocols: ``v1``, ``v2`` or ``v2 v1``: what it listens for; what the lab's nodes speak unless given.
            host: where it listens, 127.0.0.1 or ::1.
            throttle: limits of the policy's own throttles, ``messages`` and ``size_bytes``.
            auth: how it authenticates and whom it believes, see ``toolkit/node/auth.py``.
            addr: its address, where the backend lets one choose; one of the backend's unless given.
            requires: feature bits that its policy requires of every peer.
            options: Config options other than their defaults.
        """
        addrs = [self.protocol] if not protocols else [Protocol(word) for word in protocols.split()]
        spec = self._describe(name, entity, policy, addrs if listens else [], host=host, options=options)
        spec.throttle = dict(throttle or {})
        spec.auth = dict(auth or {})
        spec.requires = requires
        spec.addr = addr or spec.addr
        self._specs[name] = spec

    def like(self, implementation: str) -> None:
        """Have all nodes that are described from now on keep to the rules of an implementation.

        See docs/disputes.md, and :meth:`Config.like`.
        """
        self._step("like", implementation)
        self.defaults |= rules_of(implementation)

    def _describe(
        self,
        name: str,
        entity: str,
        policy: str,
        listening: Sequence[Protocol],
        *,
        options: dict[str, Any],
        host: str = "127.0.0.1",
    ) -> NodeSpec:
        nonce = 1000 + len(self._parties) + 1
        addrs = [self._address(protocol, host).with_nonce(nonce) for protocol in listening]
        blank = EntityAddr.from_host("0.0.0.0", 0, AddressType.ANY).with_nonce(nonce)  # noqa: S104 - a client has none
        return NodeSpec(
            name=name,
            entity=entity,
            addr=str(AddrVec(tuple(addrs) or (blank,))),
            policy=policy,
            mode=self.way.mode,
            service_key=self._key.to_base64(),
            peers={},
            peer_entities={},
            options=self.defaults | options,
            workers=self.way.workers,
            seed=self.seed,
            start_s=self._start_s(),
        )

    def start(self, *names: str) -> None:
        """Start nodes; all that are described, unless some are named."""
        names = names or tuple(self._specs)
        self._step("start", *names)
        parties = self._parties
        for spec in parties:
            spec.peers = {other.name: other.addr for other in parties}
            spec.peer_entities = {other.name: other.entity for other in parties}
        self._launch(*names)

    def start_late(self, name: str) -> None:
        """Start a node that was described, but left out, when the others were started."""
        self._step("start_late", name)
        self._launch(name)

    def same_address(self, name: str, other: str) -> None:
        """Give a node that was not started yet the host and port of another; its nonce stays its own."""
        spec, nonce = self._specs[name], self._specs[name].addrs.front.nonce
        spec.addr = str(self._specs[other].addrs.front.with_nonce(nonce))

    def two(
        self,
        policy_a: str = "lossless_peer",
        policy_b: str = "",
        entity_a: str = "osd.1",
        entity_b: str = "osd.2",
        *,
        a_listens: bool | None = None,
        **options: Any,  # noqa: ANN401 - Config options
    ) -> None:
        """Describe nodes ``a`` and ``b`` and start both.

        Args:
            policy_a: of a.
            policy_b: of b; as of a unless given.
            entity_a: messenger name of a.
            entity_b: messenger name of b.
            a_listens: whether b can dial a; unless given, it can where b's policy is not a server's.
            options: Config options of both.
        """
        policy_b = policy_b or policy_a
        if a_listens is None:
            a_listens = policy_b not in {"stateful_server", "stateless_server", "stateless_registered_server"}
        self.node("a", entity_a, policy_a, listens=a_listens, **options)
        self.node("b", entity_b, policy_b, **options)
        self.start("a", "b")

    def kill(self, name: str) -> None:
        """End a node's process without warning; its memory is gone."""
        self._step("kill", name)
        self._end(name)

    def _end(self, name: str) -> None:
        self._collect_visits(name)
        self._kill(name)

    def revive(self, name: str, *, new_nonce: bool = False, **options: Any) -> None:  # noqa: ANN401 - Config options
        """Start a killed node again at the same address, with nothing remembered.

        Args:
            name: which.
            new_nonce: whether it has another nonce than before: another identity at the same port.
            options: Config options that differ from those it had.
        """
        self._step("revive", name, **({"new_nonce": True} if new_nonce else {}), **options)
        self._revive(name, new_nonce=new_nonce, **options)

    def _revive(self, name: str, news: str = "learn", *, new_nonce: bool, **options: Any) -> None:  # noqa: ANN401
        """Start a node; ``news`` is the command by which others get its new nonce: learn, or moved."""
        spec = self._specs[name]
        spec.incarnation += 1
        spec.options |= options
        if new_nonce:
            nonce = spec.addrs.front.nonce + 1000 * spec.incarnation
            spec.addr = str(AddrVec(tuple(addr.with_nonce(nonce) for addr in spec.addrs)))
        for other in self._specs.values():
            other.peers[name] = spec.addr
            if new_nonce and other is not spec and self._running(other.name):
                self._command(other.name, news, peer=name, addr=spec.addr)
        self._launch(name)

    def freeze(self, name: str) -> None:
        """Stop a node as SIGSTOP does: nothing runs on it, its kernel goes on."""
        self._step("freeze", name)
        self._freeze(name, frozen=True)

    def thaw(self, name: str) -> None:
        """Let a frozen node go on."""
        self._step("thaw", name)
        self._freeze(name, frozen=False)

    def address(self, name: str) -> str:
        """The address of a node, as its peers dial it."""
        return self._specs[name].addr

    def hosts(self, name: str) -> list[str]:  # noqa: ARG002 - all are on one host, unless a backend has more
        """The IP addresses that a node may take for its own."""
        return ["127.0.0.1"]

    def own_address(self, name: str) -> str:
        """What a node takes for its own address by now."""
        addrs: str = self._command(name, "own_address")["addrs"]
        return addrs

    def learn(self, name: str, peer: str, addr: str) -> None:
        """Tell a node that a peer is at another address; what it has opened stays."""
        self._step("learn", name, peer, addr)
        self._command(name, "learn", peer=peer, addr=addr)

    def configure(self, name: str, **options: Any) -> None:  # noqa: ANN401 - Config options
        """Change options of a running node."""
        self._step("configure", name, **options)
        self._command(name, "configure", options=options)

    def counters(self, name: str) -> dict[str, Any]:
        """What a node counts: ``perf dump`` of it, by section."""
        return self._command(name, "perf_dump")

    def snapshot(self, name: str) -> dict[str, Any]:
        """What a node holds: see :meth:`messenger.endpoint.Endpoint.snapshot`."""
        return self._snapshot(name)

    def _launch(self, *names: str) -> None:
        for name in names:
            self._spawn(self._specs[name])
        self._started(*names)
