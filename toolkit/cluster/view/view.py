"""The live view, which a thread updates while it is visible; elsewhere a static picture."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from messenger.errors import LocalError
from toolkit.checks.live import check_standing
from toolkit.cluster.nemesis import Timeline
from toolkit.cluster.status import JUDGED_RECORDS, verdicts_json
from toolkit.cluster.view.controls import Controls
from toolkit.cluster.view.facts import Facts, Gatherer
from toolkit.cluster.view.page import Page, frame
from toolkit.cluster.view.words import test_of, timeline_of
from toolkit.extras import require

if TYPE_CHECKING:
    from toolkit.cluster.cluster import Cluster
    from toolkit.cluster.view.widget import LiveWidget

LEAST_PAUSE_S = 0.4
"""Least time between two updates."""
_PAUSES = 4
"""An update is followed by a pause of this many times its duration, so that updates take a fifth of the time at
most."""
_LEAST_JUDGED_S = 2.0
_JUDGED_PAUSES = 9
SEEN_S = 60.0
"""A browser reports every ten seconds that the view is visible; after this time of silence it counts as gone."""
_END_S = 60.0


class ClusterView:
    """A cluster in a notebook: nodes, sessions, faults, invariants and events, with buttons for faults.

    ``cluster.view()`` as the last line of a cell displays it. It is updated while it is visible. In a preview or
    an exported page, without a kernel, it shows the cluster as it was when the cell ran.

    Args:
        cluster: the cluster; the view ends with it.

    Raises:
        MissingExtra: anywidget is not installed.
    """

    def __init__(self, cluster: "Cluster") -> None:
        require("anywidget")
        self._cluster = cluster
        self._controls = Controls.of(cluster.scene)
        self._gatherer = Gatherer(cluster)
        self._gathering = threading.Lock()
        self._changed = threading.Condition()
        self._asked: deque[Mapping[str, Any]] = deque()
        self._seen_s: dict[str, float] = {}
        """Monotonic time at which each browser view was last visible."""
        self._thread: threading.Thread | None = None
        self._ended = False
        self._widget: LiveWidget | None = None
        self._facts: Facts | None = None
        self._checks: dict[str, Any] | None = None
        self._judged = 0.0, 0
        self._judge_at_s = 0.0
        self._chosen = self._refused = self._outcome = ""

    # ---- for programs

    @property
    def timeline(self) -> Timeline:
        """The faults so far, from buttons or elsewhere, with times since the cluster was ready."""
        return timeline_of(self._gather().steps, self._cluster.ready_s)

    def as_test(self, name: str = "test_what_was_done") -> str:
        """Return a pytest file that repeats the faults and requires that all invariants hold.

        Args:
            name: name of the test function.

        Raises:
            LocalError: the name is not valid for a test function.
        """
        if not name.isidentifier() or not name.startswith("test"):
            raise LocalError(f"{name!r} is no valid name of a test function; an example is test_reconnect")
        return test_of(self.timeline, self._cluster.spec, name)

    def html(self) -> str:
        """Return the present or last state of the cluster as self-contained HTML."""
        self._gather()
        if self._thread is None and not self._ended and len(self._cluster.history) <= JUDGED_RECORDS:
            self._judge()
        return self._page(live=False).html()

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self._cluster), "text/html": self.html()}
        if self._ended:
            return bundle
        if self._widget is None:
            from toolkit.cluster.view.widget import LiveWidget  # noqa: PLC0415 - takes a third of a second

            self._widget = LiveWidget(frame(), self._page().parts(), self.on_message)
        widget = self._widget._repr_mimebundle_()
        data = widget[0] if isinstance(widget, tuple) else widget
        return {**(data or {}), **bundle}

    # ---- messages of the browser

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Take a message of the browser; the view's thread processes it.

        Args:
            content: ``{"view": id, "seen": bool}``, ``{"fault": words}``, ``{"choose": session}`` or
                ``{"judge": True}``; others are ignored.
        """
        with self._changed:
            if self._ended:
                return
            if "view" in content:
                self._look(str(content["view"]), seen=bool(content.get("seen")))
            else:
                self._asked.append(content)
            if self._thread is None and (self._asked or self._seen_s):
                name = f"view of {self._cluster.name}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _look(self, view: str, *, seen: bool) -> None:
        if seen:
            self._seen_s[view] = time.monotonic()
        else:
            self._seen_s.pop(view, None)

    # ---- the thread

    def _run(self) -> None:
        pause_s = 0.0
        while self._wait(pause_s):
            self._do_asked()
            took_s = self._refresh()
            if time.monotonic() >= self._judge_at_s and len(self._cluster.history) <= JUDGED_RECORDS:
                self._judge()
                took_s = self._refresh()
            pause_s = max(LEAST_PAUSE_S, _PAUSES * took_s)

    def _wait(self, pause_s: float) -> bool:
        """Wait until the next update is due; returns False if the view is not visible any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._asked or self._ended or not self._seen_s, pause_s)
            first_s = time.monotonic() - SEEN_S
            self._seen_s = {view: at_s for view, at_s in self._seen_s.items() if at_s > first_s}
            goes_on = not self._ended and bool(self._seen_s or self._asked)
            if not goes_on:
                self._thread = None
            return goes_on

    def _do_asked(self) -> None:
        while True:
            with self._changed:
                if self._ended or not self._asked:
                    return
                asked = self._asked.popleft()
            if "fault" in asked:
                self._fault(str(asked["fault"]))
            elif "choose" in asked:
                self._chosen = str(asked["choose"])
            elif "judge" in asked:
                self._judge()

    def _fault(self, words: str) -> None:
        self._refused = self._outcome = ""
        try:
            self._outcome = self._cluster.fault(words)
        except LocalError as error:
            self._refused = str(error)

    def _refresh(self) -> float:
        """Update the view; returns how long that took, in seconds."""
        began_s = time.monotonic()
        self._gather()
        self._show()
        return time.monotonic() - began_s

    def _show(self) -> None:
        if self._widget is not None:
            self._widget.parts = self._page().parts()

    def _judge(self) -> None:
        """Check the history so far; the view is updated while the check waits for violations to persist."""
        began_s, records = time.monotonic(), len(self._cluster.history)
        now_s = self._cluster.now()
        if records:
            self._checks = verdicts_json(check_standing(self._cluster.history, wait=self._pass))
            self._judged = now_s, records
        took_s = time.monotonic() - began_s
        self._judge_at_s = time.monotonic() + max(_LEAST_JUDGED_S, _JUDGED_PAUSES * took_s)

    def _pass(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            with self._changed:
                if self._changed.wait_for(lambda: self._ended, min(left_s, LEAST_PAUSE_S)):
                    return
            self._refresh()

    def _gather(self) -> Facts:
        with self._gathering:
            if self._facts is None or not self._ended:
                self._facts = self._gatherer.gather()
            return self._facts

    def _page(self, *, live: bool = True) -> Page:
        assert self._facts is not None
        return Page(
            self._facts,
            self._controls,
            self._cluster.spec,
            timeline_of(self._facts.steps, self._cluster.ready_s),
            self._checks,
            *self._judged,
            chosen=self._chosen,
            refused=self._refused,
            outcome=self._outcome,
            ended=self._ended,
            live=live,
        )

    def close(self) -> None:
        """Stop the thread; the view stays, and shows that the cluster is down."""
        self._gather()
        with self._changed:
            thread = self._thread
            self._ended = True
            self._asked.clear()
            self._changed.notify_all()
        if thread is not None:
            thread.join(_END_S)
        self._show()
