"""Verbs for shutdown, clocks, limits and commands during dispatch, and for reading state and history."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from messenger.outputs import EventKind
from messenger.perf import PerfDump, prometheus
from toolkit.checks.records import MESSAGE_TAGS, Record
from toolkit.errors import ScenarioFailed
from toolkit.faults.tap import Breakpoint
from toolkit.lab.verbs.traffic import TrafficVerbs

_LATE_S = 2.0
"""Seconds that a real process may be late: other programs share the machine."""


class LifeVerbs(TrafficVerbs):
    """Verbs for shutdown, clocks and commands during dispatch, and for reading nodes and the history."""

    # ---- doing

    def stop(self, name: str, *, graceful: bool = False) -> None:
        """Have a node shut its messenger down; returns before that is complete.

        Args:
            name: name of the node.
            graceful: True if it first sends its queued messages, for up to ``ms_shutdown_timeout``.
        """
        self._step("stop", name, graceful=graceful)
        self._command(name, "stop", graceful=graceful)

    def expect_stopped(self, *names: str, within_s: float | None = None) -> None:
        """Wait until nodes have shut their messengers down, and require that nothing is left of them."""
        self._step("expect_stopped", *names)
        self._wait(
            lambda: self._stopped.issuperset(names),
            f"messengers shut down: {', '.join(names)}",
            lambda: ", ".join(f"{name}: {self._snapshot(name)}" for name in names),
            within_s,
        )
        for name in names:
            left = {key: value for key, value in self._snapshot(name).items() if value and key != "dispatch_bytes"}
            if left:
                raise ScenarioFailed(f"{name} is shut down, but still holds {left}")

    def on_delivery(self, node: str, verb: str, *, nth: int = 1, every: int = 0, **args: Any) -> None:  # noqa: ANN401 - as JSON
        """Have a node carry out a command while its application dispatches a message.

        Args:
            node: name of the node.
            verb: one of ``NodeApp.VERBS``, for example ``mark_down``.
            nth: at which message, counted from now on.
            every: repeat it after that many further messages each time; 0: never.
            args: arguments of the command.
        """
        self._step("on_delivery", node, verb, nth=nth, every=every, **args)
        self._command(node, "on_delivery", nth=nth, command=verb, args=args, every=every)

    def keep_alive(self, node: str, peer: str, interval_s: float, timeout_s: float) -> None:
        """Have a node send keepalives to a peer at this interval; see :meth:`Connection.keep_alive`."""
        self._step("keep_alive", node, peer, interval_s, timeout_s)
        self._command(node, "keep_alive", peer=peer, interval_s=interval_s, timeout_s=timeout_s)

    def jump_clock(self, node: str, seconds: float) -> None:
        """Set a node's wall clock forward or back."""
        self._step("jump_clock", node, seconds)
        self._command(node, "jump_clock", seconds=seconds)

    def limit_descriptors(self, node: str, *, limited: bool) -> None:
        """Forbid a node's process to open further descriptors, or lift that limit."""
        self._step("limit_descriptors", node, limited=limited)
        self._command(node, "limit_descriptors", limited=limited)

    def limit_memory(self, node: str, more_bytes: int | None) -> None:
        """Limit a node's process to ``more_bytes`` of memory above its present use; None lifts the limit."""
        self._step("limit_memory", node, more_bytes)
        self._command(node, "limit_memory", more_bytes=more_bytes)

    def expect_calls(self, node: str) -> None:
        """Require that a node's application was called once for each session event of its history.

        Calls about sessions that the application has marked down may be missing.
        """
        least, _ = self._events_of(node)
        calls = Counter(self._command(node, "calls"))
        _, most = self._events_of(node)
        wrong = {
            kind.value: calls[kind]
            for kind in EventKind
            if not least[kind] - calls["silenced"] <= calls[kind] <= most[kind]
        }
        self.require(
            not wrong, f"{node}: calls of the application {wrong}, its history has the events {dict(most)}"
        )

    def expect_counters(self, node: str) -> None:
        """Require that a node's performance counters agree with the frames of its history since its last start.

        So do the counters as Prometheus text; messages that a node sends to itself are no frames. The frames
        before a message that cannot be encoded are in the history, but were not written, and are not counted.
        """
        counters: PerfDump = self._command(node, "perf_dump")
        exported = prometheus(counters, node).splitlines()
        life = self._life_of(node, {"frame", "unsent"})
        unsent = any(record.kind == "unsent" for record in life)
        frames = Counter(
            record["direction"] for record in life if record.kind == "frame" and record["tag"] in MESSAGE_TAGS
        )
        for direction, name in (("tx", "msgr_send_messages"), ("rx", "msgr_recv_messages")):
            values = [group[name] for group in counters.values() if name in group]
            counted, expected = sum(map(int, values)), frames[direction]  # type: ignore[arg-type]  # a number each
            agrees = counted == expected or (unsent and direction == "tx" and counted < expected)
            self.require(agrees, f"{node}: {name} is {counted}, its history has {expected} frames")
            lines = [line for line in exported if line.startswith(f"ceph_AsyncMessenger_Worker_{name}{{")]
            text = sum(int(line.rpartition(" ")[2]) for line in lines)
            self.require(text == counted, f"{node}: {name} is {counted}, and {text} for Prometheus")

    def _life_of(self, node: str, kinds: set[str]) -> list[Record]:
        """The records of these kinds and of kind ``process`` since a node's last start."""
        records = [record for record in self.history.node(node) if record.kind in {*kinds, "process"}]
        starts = [place for place, record in enumerate(records) if record.fields.get("action") == "start"]
        return records[starts[-1] :] if starts else records

    def _events_of(self, node: str) -> tuple[Counter[str], Counter[str]]:
        """Count the events since a node's last start, by kind: those of sessions not marked down, and all."""
        life = self._life_of(node, {"event", "mark_down"})
        events = [record for record in life if record.kind == "event"]
        ended = {record["session"] for record in life if record.kind == "mark_down"}
        kept = Counter(record["event"] for record in events if record["session"] not in ended)
        return kept, Counter(record["event"] for record in events)

    # ---- reading

    def session(self, node: str, peer: str) -> dict[str, Any]:
        """A node's session with a peer: its id, state, cookies and counters; empty if there is none."""
        return self._command(node, "session", peer=peer)

    def holdings(self, node: str) -> dict[str, Any]:
        """The resources of a node's messenger: links, sessions, bytes of unfinished frames, throttles, timers."""
        return self._command(node, "holdings")

    def expect_throttles_empty(self, *nodes: str) -> None:
        """Wait until every throttle of the nodes is at zero."""
        self._step("expect_throttles_empty", *nodes)
        for node in nodes:
            self._wait(
                lambda node=node: not any(self.holdings(node)["throttled"].values()),  # type: ignore[misc]
                f"all throttles of {node} at 0",
                lambda node=node: f"they are at {self.holdings(node)['throttled']}",  # type: ignore[misc]
            )

    def expect_memory(self, node: str, held_bytes: int) -> None:
        """Wait until a node's links hold at most ``held_bytes`` of unfinished frames and unwritten bytes."""
        self._step("expect_memory", node, held_bytes)

        def held() -> int:
            resources = self.holdings(node)
            return int(resources["held_bytes"]) + int(resources["unwritten_bytes"])

        self._wait(lambda: held() <= held_bytes, f"at most {held_bytes} bytes held by {node}", lambda: str(held()))

    def wait_until(self, condition: Callable[[], bool], what: str, *, within_s: float | None = None) -> None:
        """Wait until a condition holds; ``what`` describes it in the error message."""
        self._step("wait_until", what)
        self._wait(condition, what, within_s=within_s)

    def come_to_rest(self, seconds: float) -> None:
        """Let ``seconds`` pass; in real time, return as soon as all nodes are at rest."""
        if not self.real_time:
            self.wait(seconds)
            return
        self._step("come_to_rest", seconds)
        self._wait_until(lambda: all(self._at_rest(name) for name in self._specs if self._running(name)), seconds)

    def wait_for_dials(self, node: str, count: int, *, within_s: float | None = None) -> None:
        """Wait until a node has dialled ``count`` times since the run began."""
        self.wait_until(lambda: self.dials(node) >= count, f"{count} dials of {node}", within_s=within_s)

    def was_in_state(self, node: str, state: str) -> bool:
        """True if any session of a node was ever in a state."""
        return bool(self.records(node, "state", state=state))

    def breakpoint(self, text: str, *, byte: int | None = None) -> Breakpoint:
        """Parse a breakpoint as :meth:`Breakpoint.parse` does; on v1 the tag MESSAGE stands for MSG.

        Args:
            text: SENDER:TAG[:NTH].
            byte: number of bytes of the frame that pass before the cut; None: all.
        """
        found = Breakpoint.parse(text.replace(":MESSAGE", ":MSG") if self.is_v1 else text, self.protocol)
        found.byte = byte
        return found

    def records(self, node: str, kind: str, **fields: object) -> list[Record]:
        """The records of a node so far, of one kind, whose fields have these values."""
        return [
            record
            for record in self.history.of(kind)
            if record.node == node and all(record.fields.get(key) == value for key, value in fields.items())
        ]

    def frames(self, node: str, tag: str, direction: str = "tx") -> list[Record]:
        """The frames of a tag that a node has written (or, with ``rx``, read) so far."""
        return self.records(node, "frame", tag=tag, direction=direction)

    def messages(self, node: str, direction: str = "tx") -> list[Record]:
        """The message frames that a node has written (or, with ``rx``, read) so far, on either protocol."""
        return [record for tag in sorted(MESSAGE_TAGS) for record in self.frames(node, tag, direction)]

    def dial_pauses_s(self, node: str) -> list[float]:
        """The times between a node's dials, in seconds."""
        times = [record.time_s for record in self.records(node, "link", action="dial")]
        return [later - earlier for earlier, later in pairwise(times)]

    def expect_pauses(self, node: str, *due_s: float) -> None:
        """Require that the first pauses between a node's dials are these, plus the time that connecting takes."""
        self._step("expect_pauses", node, *due_s)
        slack_s = _LATE_S if self.real_time else 0.05
        seen_s = self.dial_pauses_s(node)
        on_time = len(seen_s) >= len(due_s) and all(
            -0.001 < seen - due < slack_s for seen, due in zip(seen_s, due_s, strict=False)
        )
        self.require(on_time, f"{node} must pause {due_s} s between dials, it paused {seen_s}")

    def expect_backoff(self, node: str, at_least: int, *, first: int = 0, initial_s: float = 0.2) -> None:
        """Require that the pauses between a node's dials double, up to 15 s.

        Args:
            node: name of the node.
            at_least: minimum number of such pauses.
            first: number of earlier pauses to skip.
            initial_s: the first of these pauses, in seconds.
        """
        self._step("expect_backoff", node, at_least, first=first, initial_s=initial_s)
        seen_s = self.dial_pauses_s(node)[first:]
        due_s = [min(initial_s * 2**number, 15.0) for number in range(len(seen_s))]
        slack_s = _LATE_S if self.real_time else 0.05
        self.require(len(seen_s) >= at_least, f"{node} must pause at least {at_least} times, it paused {seen_s} s")
        for seen, due in zip(seen_s, due_s, strict=True):
            self.require(
                -0.001 < seen - due < slack_s, f"{node} must pause {due} s between two dials: it paused {seen_s}"
            )

    def race_winner(self, a: str, b: str) -> tuple[str, str]:
        """The node of two whose dial wins a race, the one with the lower address, and the other."""
        first, second = sorted((a, b), key=lambda name: self._specs[name].addrs.front.sort_key())
        return first, second

    def verdicts(self, node: str) -> list[str]:
        """The verdicts of a node's decisions on incoming links so far."""
        return [record["verdict"] for record in self.records(node, "decision")]

    def point(self, tag: str, way: str) -> str:
        """The interception point of a frame in the protocol of the lab; MESSAGE stands for messages on both."""
        return f"{'MSG' if self.is_v1 and tag == 'MESSAGE' else tag} {way}"
