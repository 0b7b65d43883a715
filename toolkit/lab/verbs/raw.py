"""Verbs for raw peers, whose frames the scenario writes itself, and for the faults that they cause at nodes."""

from toolkit.lab.verbs.nodes import NodeVerbs
from toolkit.lab.verbs.traffic import TrafficVerbs
from toolkit.node.raw.peer import RawPeer


class RawVerbs(TrafficVerbs, NodeVerbs):
    """Verbs for raw peers, and for the faults of nodes."""

    def raw(self, name: str, entity: str = "osd.2", *, listens: bool = True) -> RawPeer:
        """Create a raw peer, which sends only the frames that the scenario has it send; it exists at once.

        Its links are :class:`toolkit.node.raw.link.RawLink`.

        Args:
            name: name of the peer in the scenario and in the history.
            entity: its messenger name, TYPE.NUM.
            listens: True if nodes can dial it.
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

    # ---- faults of nodes

    def faults(self, node: str) -> list[str]:
        """The reasons for which a node's links broke so far, in order, as names of FaultReason."""
        self._catch_up(node)
        return list(self._faults[node])

    def expect_faults(self, node: str, *reasons: str, since: int = 0, within_s: float | None = None) -> None:
        """Wait until a node's links have broken for exactly these reasons, in this order.

        Args:
            node: name of the node.
            reasons: names of FaultReason.
            since: number of earlier faults to skip.
            within_s: seconds to wait; the usual patience unless given.
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
        """Wait until exactly ``count`` links of a node have broken since the run began, for any reasons."""
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
        """Wait until at least ``count`` links of a node have broken since the run began, for any reasons."""
        self._step("expect_broken", node, count)
        self._wait(
            lambda: len(self.faults(node)) >= count,
            f"{count} links of {node} broken",
            lambda: f"there were {', '.join(self.faults(node)) or 'none'}",
            within_s,
        )

    def expect_closes(self, node: str, count: int) -> None:
        """Wait until at least ``count`` links of a node have ended since the run began."""
        self._step("expect_closes", node, count)
        self._wait(
            lambda: self.closes(node) >= count,
            f"{count} links of {node} closed",
            lambda: f"{self.closes(node)} were",
        )

    def tids(self, node: str) -> list[int]:
        """The tids of all messages that were delivered to a node's application, in order."""
        return [record["tid"] for record in self.history.node(node).of("deliver")]

    def last_fault(self, node: str) -> str:
        """The detail of the last fault of a node; empty if it had none."""
        found = (record for record in reversed(self.history.records) if record.kind == "fault")
        return next((str(record["detail"]) for record in found if record.node == node), "")
