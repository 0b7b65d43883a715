"""Verbs about how things go on and end: shutdown, clocks, commands from inside dispatch, and what is seen."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from messenger.outputs import EventKind
from toolkit.checks.records import MESSAGE_TAGS, Record
from toolkit.errors import ScenarioFailed
from toolkit.faults.tap import Breakpoint
from toolkit.lab.verbs.traffic import TrafficVerbs

_LATE_S = 2.0
"""By how much a real process may be late: other things run beside it."""


class LifeVerbs(TrafficVerbs):
    """Shutdown, clocks, dispatchers that do something, and questions to nodes and to the history."""

    # ---- doing

    def stop(self, name: str, *, graceful: bool = False) -> None:
        """Have a node shut its messenger down; that it is done is not waited for.

        Args:
            name: whose.
            graceful: first send what is queued, for up to ``ms_shutdown_timeout``.
        """
        self._step("stop", name, graceful=graceful)
        self._command(name, "stop", graceful=graceful)

    def expect_stopped(self, *names: str, within_s: float | None = None) -> None:
        """Wait until nodes have shut their messengers down; nothing may be left of them."""
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
        """Have a node carry out a command while it dispatches a message.

        Args:
            node: whose application.
            verb: one of ``NodeApp.VERBS``, for example ``mark_down``.
            nth: at which message from now on.
            every: again at every so many more; 0: once.
            args: of the command.
        """
        self._step("on_delivery", node, verb, nth=nth, every=every, **args)
        self._command(node, "on_delivery", nth=nth, command=verb, args=args, every=every)

    def keep_alive(self, node: str, peer: str, interval_s: float, timeout_s: float) -> None:
        """Have a node ask a peer for a sign of life at regular times; see :meth:`Connection.keep_alive`."""
        self._step("keep_alive", node, peer, interval_s, timeout_s)
        self._command(node, "keep_alive", peer=peer, interval_s=interval_s, timeout_s=timeout_s)

    def jump_clock(self, node: str, seconds: float) -> None:
        """Set a node's wall clock forward or back."""
        self._step("jump_clock", node, seconds)
        self._command(node, "jump_clock", seconds=seconds)

    def limit_descriptors(self, node: str, *, limited: bool) -> None:
        """Let a node's process open no more descriptors than it has, or as many as ever."""
        self._step("limit_descriptors", node, limited=limited)
        self._command(node, "limit_descriptors", limited=limited)

    def limit_memory(self, node: str, more_bytes: int | None) -> None:
        """Let a node's process have so much memory more than it has now; None: as much as ever."""
        self._step("limit_memory", node, more_bytes)
        self._command(node, "limit_memory", more_bytes=more_bytes)

    def expect_calls(self, node: str) -> None:
        """The messenger must have called a node's application once for each session event of its history.

        Events of sessions that the application has marked down may be missing.
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

    def _events_of(self, node: str) -> tuple[Counter[str], Counter[str]]:
        """By kind, the events in this life of a node: of sessions that were not marked down, and of all."""
        kinds = {"event", "mark_down", "process"}
        records = [record for record in self.history.node(node) if record.kind in kinds]
        starts = [place for place, record in enumerate(records) if record.fields.get("action") == "start"]
        life = records[starts[-1] :] if starts else records
        events = [record for record in life if record.kind == "event"]
        ended = {record["session"] for record in life if record.kind == "mark_down"}
        kept = Counter(record["event"] for record in events if record["session"] not in ended)
        return kept, Counter(record["event"] for record in events)

    # ---- asking

    def session(self, node: str, peer: str) -> dict[str, Any]:
        """What a node knows of its session with a peer: id, state, counters; empty if there is none."""
        return self._command(node, "session", peer=peer)

    def holdings(self, node: str) -> dict[str, Any]:
        """What a node's messenger holds: links, sessions, bytes of unfinished frames, throttles, timers."""
        return self._command(node, "holdings")

    def expect_throttles_empty(self, *nodes: str) -> None:
        """Wait until nothing is taken from any throttle of the nodes."""
        self._step("expect_throttles_empty", *nodes)
        for node in nodes:
            self._wait(
                lambda node=node: not any(self.holdings(node)["throttled"].values()),  # type: ignore[misc]
                f"all throttles of {node} at 0",
                lambda node=node: f"they are at {self.holdings(node)['throttled']}",  # type: ignore[misc]
            )

    def expect_memory(self, node: str, held_bytes: int) -> None:
        """Wait until a node's links hold no more unfinished and unwritten bytes than that."""
        self._step("expect_memory", node, held_bytes)

        def held() -> int:
            resources = self.holdings(node)
            return int(resources["held_bytes"]) + int(resources["unwritten_bytes"])

        self._wait(lambda: held() <= held_bytes, f"at most {held_bytes} bytes held by {node}", lambda: str(held()))

    def wait_until(self, condition: Callable[[], bool], what: str, *, within_s: float | None = None) -> None:
        """Wait until a condition holds; ``what`` says which."""
        self._step("wait_until", what)
        self._wait(condition, what, within_s=within_s)

    def come_to_rest(self, seconds: float) -> None:
        """Let time pass; where it is real, only until all nodes are at rest, if they are before that."""
        if not self.real_time:
            self.wait(seconds)
            return
        self._step("come_to_rest", seconds)
        self._wait_until(lambda: all(self._at_rest(name) for name in self._specs if self._running(name)), seconds)

    def wait_for_dials(self, node: str, count: int, *, within_s: float | None = None) -> None:
        """Wait until a node has dialled ``count`` times in all."""
        self.wait_until(lambda: self.dials(node) >= count, f"{count} dials of {node}", within_s=within_s)

    def was_in_state(self, node: str, state: str) -> bool:
        """True if any session of a node has been in a state."""
        return bool(self.records(node, "state", state=state))

    def breakpoint(self, text: str, *, byte: int | None = None) -> Breakpoint:
        """A breakpoint as :meth:`Breakpoint.parse` reads it; MESSAGE is what the protocol spoken calls it.

        Args:
            text: SENDER:TAG[:NTH].
            byte: how many bytes of the frame pass; None: all.
        """
        sender, _, rest = text.partition(":")
        tag, colon, nth = rest.partition(":")
        if self.is_v1 and tag == "MESSAGE":
            tag = "MSG"
        found = Breakpoint.parse(f"{sender}:{tag}{colon}{nth}", self.protocol)
        found.byte = byte
        return found

    def records(self, node: str, kind: str, **fields: object) -> list[Record]:
        """The records of a node so far that have these values in their fields."""
        return [
            record
            for record in self.history.of(kind)
            if record.node == node and all(record.fields.get(key) == value for key, value in fields.items())
        ]

    def frames(self, node: str, tag: str, direction: str = "tx") -> list[Record]:
        """The frames of a tag that a node has written (or, with ``rx``, read) so far."""
        return self.records(node, "frame", tag=tag, direction=direction)

    def messages(self, node: str, direction: str = "tx") -> list[Record]:
        """The message frames that a node has written (or read) so far, whatever the protocol calls them."""
        return [record for tag in sorted(MESSAGE_TAGS) for record in self.frames(node, tag, direction)]

    def dial_pauses_s(self, node: str) -> list[float]:
        """The times between a node's dials, in seconds."""
        times = [record.time_s for record in self.records(node, "link", action="dial")]
        return [later - earlier for earlier, later in pairwise(times)]

    def expect_pauses(self, node: str, *due_s: float) -> None:
        """The first pauses between a node's dials must be these, but for what computing and connecting take."""
        self._step("expect_pauses", node, *due_s)
        slack_s = _LATE_S if self.real_time else 0.05
        seen_s = self.dial_pauses_s(node)
        on_time = len(seen_s) >= len(due_s) and all(
            -0.001 < seen - due < slack_s for seen, due in zip(seen_s, due_s, strict=False)
        )
        self.require(on_time, f"{node} must pause {due_s} s between dials, it paused {seen_s}")

    def expect_backoff(self, node: str, at_least: int, *, first: int = 0, initial_s: float = 0.2) -> None:
        """The pauses between a node's dials must double, up to 15 s.

        Args:
            node: whose.
            at_least: how many such pauses there must be.
            first: how many pauses before them do not count.
            initial_s: the first of them.
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
        """Of two nodes, whose dial wins a race, and the other: the one with the lower address wins."""
        first, second = sorted((a, b), key=lambda name: self._specs[name].addrs.front.sort_key())
        return first, second

    def verdicts(self, node: str) -> list[str]:
        """What a node has decided on incoming links so far."""
        return [record["verdict"] for record in self.records(node, "decision")]

    def point(self, tag: str, way: str) -> str:
        """The point at which messages (``MESSAGE``) or other frames of that name pass, in the protocol spoken."""
        return f"{'MSG' if self.is_v1 and tag == 'MESSAGE' else tag} {way}"
