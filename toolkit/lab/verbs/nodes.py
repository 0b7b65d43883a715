"""Verbs for nodes: describe, start, kill, freeze and restart them."""

from collections.abc import Mapping, Sequence
from typing import Any

from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.link import Protocol
from messenger.rules import rules_of
from toolkit.lab.core import LabCore
from toolkit.node import NodeSpec


class NodeVerbs(LabCore):
    """Verbs for nodes."""

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
        """Describe a node; describe all nodes before you start the first.

        Args:
            name: name of the node in the scenario and in the history.
            entity: its messenger name, TYPE.NUM.
            policy: its policy for every peer; policies for some types of peers may follow (``TYPE=POLICY``).
                Or the name of a messenger of Ceph's daemons, such as ``osd public``.
            listens: True if peers can dial it.
            protocols: the protocols for which it listens, ``v1``, ``v2`` or ``v2 v1``; the lab's unless given.
            host: the IP at which it listens, 127.0.0.1 or ::1.
            throttle: limits of its policy's own throttles, ``messages`` and ``size_bytes``.
            auth: its keys and how it authenticates its peers, see ``toolkit/node/auth.py``.
            addr: its address, on backends that accept one; chosen by the backend unless given.
            requires: feature bits that its policy requires of every peer.
            options: Config options that differ from their defaults.
        """
        addrs = [self.protocol] if not protocols else [Protocol(word) for word in protocols.split()]
        spec = self._describe(name, entity, policy, addrs if listens else [], host=host, options=options)
        spec.throttle = dict(throttle or {})
        spec.auth = dict(auth or {})
        spec.requires = requires
        spec.addr = addr or spec.addr
        self._specs[name] = spec

    def like(self, implementation: str) -> None:
        """Apply an implementation's disputed rules to all nodes that are described after this.

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
        blank = EntityAddr.from_host("0.0.0.0", 0, AddressType.ANY).with_nonce(nonce)  # noqa: S104 - a client has no IP yet
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
        """Start the named nodes, or all that are described."""
        names = names or tuple(self._specs)
        self._step("start", *names)
        parties = self._parties
        for spec in parties:
            spec.peers = {other.name: other.addr for other in parties}
            spec.peer_entities = {other.name: other.entity for other in parties}
        self._launch(*names)

    def start_late(self, name: str) -> None:
        """Start a node that was described before the others were started, but not started with them."""
        self._step("start_late", name)
        self._launch(name)

    def same_address(self, name: str, other: str) -> None:
        """Give a node that is not started yet the host and port of another; it keeps its own nonce."""
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
            policy_a: policy of a.
            policy_b: policy of b; that of a unless given.
            entity_a: messenger name of a.
            entity_b: messenger name of b.
            a_listens: True if b can dial a; unless given, it can if b's policy is not a server's.
            options: Config options of both.
        """
        policy_b = policy_b or policy_a
        if a_listens is None:
            a_listens = policy_b not in {"stateful_server", "stateless_server", "stateless_registered_server"}
        self.node("a", entity_a, policy_a, listens=a_listens, **options)
        self.node("b", entity_b, policy_b, **options)
        self.start("a", "b")

    def kill(self, name: str) -> None:
        """End a node's process without warning; its sessions are lost."""
        self._step("kill", name)
        self._end(name)

    def _end(self, name: str) -> None:
        self._collect_visits(name)
        self._kill(name)

    def revive(self, name: str, *, new_nonce: bool = False, **options: Any) -> None:  # noqa: ANN401 - Config options
        """Start a killed node again at the same address, without its sessions.

        Args:
            name: name of the node.
            new_nonce: True if it gets another nonce, which makes it another identity at the same port.
            options: Config options that differ from its earlier ones.
        """
        self._step("revive", name, **({"new_nonce": True} if new_nonce else {}), **options)
        self._revive(name, new_nonce=new_nonce, **options)

    def _revive(self, name: str, news: str = "learn", *, new_nonce: bool, **options: Any) -> None:  # noqa: ANN401
        """Start a node again; ``news`` is the command that gives others its new nonce: learn, or moved."""
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
        """Stop a node's process as SIGSTOP does; its kernel goes on."""
        self._step("freeze", name)
        self._freeze(name, frozen=True)

    def thaw(self, name: str) -> None:
        """Continue a frozen node."""
        self._step("thaw", name)
        self._freeze(name, frozen=False)

    def address(self, name: str) -> str:
        """The address at which peers dial a node."""
        return self._specs[name].addr

    def hosts(self, name: str) -> list[str]:  # noqa: ARG002 - other backends have a host for each node
        """The IP addresses that a node may use as its own."""
        return ["127.0.0.1"]

    def own_address(self, name: str) -> str:
        """The address that a node uses as its own now."""
        addrs: str = self._command(name, "own_address")["addrs"]
        return addrs

    def learn(self, name: str, peer: str, addr: str) -> None:
        """Give a node another address for a peer; its open sessions stay."""
        self._step("learn", name, peer, addr)
        self._command(name, "learn", peer=peer, addr=addr)

    def configure(self, name: str, **options: Any) -> None:  # noqa: ANN401 - Config options
        """Change options of a running node."""
        self._step("configure", name, **options)
        self._command(name, "configure", options=options)

    def counters(self, name: str) -> dict[str, Any]:
        """The performance counters of a node, by section, as ``perf dump`` has them."""
        return self._command(name, "perf_dump")

    def snapshot(self, name: str) -> dict[str, Any]:
        """Numbers of a node's sessions, links and messages: :meth:`messenger.endpoint.Endpoint.snapshot`."""
        return self._snapshot(name)

    def _launch(self, *names: str) -> None:
        for name in names:
            self._spawn(self._specs[name])
        self._started(*names)
