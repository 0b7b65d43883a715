"""Verbs about peers that are spoken by hand."""

from toolkit.lab.verbs.nodes import NodeVerbs
from toolkit.lab.verbs.traffic import TrafficVerbs
from toolkit.node.raw.peer import RawPeer


class RawVerbs(TrafficVerbs, NodeVerbs):
    """Raw peers, and what nodes make of them."""

    def raw(self, name: str, entity: str = "osd.2", *, listens: bool = True) -> RawPeer:
        """Describe a raw peer, which sends what the scenario's script has it send; it exists at once.

        Its links are :class:`toolkit.node.raw.link.RawLink`.

        Args:
            name: what the scenario calls it.
            entity: its messenger name, TYPE.NUM.
            listens: whether nodes can dial it.
        """
        self._step("raw", name, entity)
        listening = [self.protocol] if listens else []
        spec = self._describe(name, entity, "lossless_peer", listening, options={})
        host = self._raw_host(spec)

        def note(what: str) -> None:
            self._step("raw", name, what)

        peer = RawPeer(spec, host, lambda: self._specs, self._wall_s, note, self.protocol)
        self._raws[name] = peer
        return peer

    # ---- how nodes reacted to frames

    def faults(self, node: str) -> list[str]:
        """The reasons for which links of a node broke, in order."""
        self._catch_up(node)
        return list(self._faults[node])

    def expect_faults(self, node: str, *reasons: str, since: int = 0, within_s: float | None = None) -> None:
        """Wait until links of a node have broken for exactly these reasons, in this order.

        Args:
            node: whose.
            reasons: names of FaultReason.
            since: how many faults before them do not count.
            within_s: how long to wait.
        """
        self._step("expect_faults", node, *reasons)
        self._wait(
            lambda: len(self._faults[node]) >= since + len(reasons),
            f"faults {', '.join(reasons)} at {node}",
            lambda: f"there were {', '.join(self._faults[node][since:]) or 'none'}",
            within_s,
        )
        seen = self._faults[node][since:]
        self.require(seen == list(reasons), f"faults of {node}: {', '.join(reasons)} expected, {seen} came")

    def expect_fault_count(self, node: str, count: int, *, within_s: float | None = None) -> None:
        """Wait until so many links of a node have broken in all, for whatever reasons; there must not be more."""
        self._step("expect_fault_count", node, count)
        self._wait(
            lambda: len(self._faults[node]) >= count,
            f"{count} faults at {node}",
            lambda: f"there were {len(self._faults[node])}",
            within_s,
        )
        seen = self._faults[node]
        self.require(len(seen) == count, f"{count} faults expected at {node}, there were {', '.join(seen)}")

    def expect_broken(self, node: str, count: int, *, within_s: float | None = None) -> None:
        """Wait until at least so many links of a node have broken in all, for whatever reasons."""
        self._step("expect_broken", node, count)
        self._wait(
            lambda: len(self.faults(node)) >= count,
            f"{count} links of {node} broken",
            lambda: f"there were {', '.join(self.faults(node)) or 'none'}",
            within_s,
        )

    def expect_closes(self, node: str, count: int) -> None:
        """Wait until so many links of a node are over in all."""
        self._step("expect_closes", node, count)
        self._wait(
            lambda: self.closes(node) >= count,
            f"{count} links of {node} closed",
            lambda: f"{self.closes(node)} were",
        )

    def tids(self, node: str) -> list[int]:
        """The tids of all messages that a node's application got, in order."""
        return [record["tid"] for record in self.history.node(node).of("deliver")]

    def last_fault(self, node: str) -> str:
        """What a node says of the last link that broke."""
        found = (record for record in reversed(self.history.records) if record.kind == "fault")
        return next((str(record["detail"]) for record in found if record.node == node), "")
