"""The live view of a cluster, as its browser drives it: messages in, HTML out."""

import re
import threading
from collections.abc import Iterator

import pytest

from messenger import LocalError
from tests.support.clusters import state
from tests.support.waiting import eventually
from toolkit.cluster import Cluster, up
from toolkit.cluster.nemesis import Timeline
from toolkit.cluster.view import ClusterView

__all__ = ["state"]

pytestmark = pytest.mark.usefixtures("state")

PATIENCE_S = 60.0
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with up("two-peers") as cluster:
        yield cluster


def _part(view: ClusterView, name: str) -> str:
    """A part of what the browser shows, as text."""
    return re.sub(r"<[^>]+>", "", view._widget.parts[name])


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("view of")]


def _trails(view: ClusterView) -> list[list[str]]:
    """The last states of each session, the newest last."""
    lines = [line for line in _part(view, "sessions").splitlines() if re.match(r"[\d.]+ [A-Z]+", line)]
    return [re.findall(r"[\d.]+ ([A-Z]+)", line) for line in lines]


def _ready(view: ClusterView) -> bool:
    """True if both peers have their session, and it is READY."""
    return [trail[-1] for trail in _trails(view)] == ["READY", "READY"]


def test_view_executes_and_shows_faults_of_the_browser(cluster: Cluster) -> None:
    view = cluster.view()
    assert cluster.view() is view
    bundle = view._repr_mimebundle_()
    assert WIDGET in bundle
    assert not _threads(), "nobody looks at it"
    view.on_message({"view": "one", "seen": True})
    eventually(lambda: _ready(view), PATIENCE_S, lambda: _part(view, "sessions"))
    before = _trails(view)
    view.on_message({"fault": "reset a b"})
    eventually(lambda: "cluster.fault(&#34;reset a b&#34;)" in _part(view, "done"), PATIENCE_S)
    eventually(lambda: _trails(view) != before and _ready(view), PATIENCE_S, lambda: _part(view, "sessions"))
    view.on_message({"fault": "freeze b"})
    eventually(lambda: "b frozen" in _part(view, "topology"), PATIENCE_S)
    eventually(lambda: re.search(r"delivery latency.*", _part(view, "rates")), PATIENCE_S)
    eventually(lambda: "b frozen from" in _part(view, "rates"), PATIENCE_S)
    assert "undo freeze b" in view._widget.parts["topology"]
    view.on_message({"fault": "freeze b"})
    eventually(lambda: "freeze b: it is in force already" in _part(view, "done"), PATIENCE_S)
    view.on_message({"fault": "frieze b"})
    eventually(lambda: "no fault 'frieze'" in view._refused, PATIENCE_S)
    view.on_message({"view": "one", "seen": False})
    eventually(lambda: not _threads(), PATIENCE_S)


def test_view_writes_its_timeline_as_a_test(cluster: Cluster) -> None:
    cluster.fault("freeze b")
    cluster.fault("thaw b")
    view = cluster.view()
    assert [str(step.fault) for step in view.timeline] == ["freeze b", "thaw b"]
    text = view.as_test("test_frozen")
    written = re.search(r'TIMELINE = """\n(.*?)"""', text, re.DOTALL)
    assert Timeline.parse(written[1]) == view.timeline
    assert 'msgrlab_cluster("two-peers")' in text
    compile(text, "test_frozen.py", "exec")
    with pytest.raises(LocalError, match="no valid name of a test function"):
        view.as_test("frozen")


def test_view_ends_with_its_cluster() -> None:
    with up("two-peers", settings=["about=<b>changed</b>"]) as cluster:
        view = cluster.view()
        view._repr_mimebundle_()
        view.on_message({"view": "one", "seen": True})
        assert _threads()
        text = view.as_test()
    assert not _threads()
    assert "down" in _part(view, "head")
    assert "<button" in view._widget.parts["controls"]
    assert not re.search("<button(?![^>]*disabled)", view._widget.parts["controls"])
    view.on_message({"fault": "kill a"})
    assert not _threads()
    assert WIDGET not in view._repr_mimebundle_()
    assert "parse_spec(SPEC)" in text, "a changed spec is in the test"
    compile(text, "test_changed.py", "exec")


def test_a_kept_picture_needs_neither_script_nor_kernel(cluster: Cluster) -> None:
    eventually(lambda: len(cluster.history.of("deliver")) > 1, PATIENCE_S)
    html = cluster.view().html()
    assert "<script" not in html
    assert "<svg" not in html, "previews of notebooks remove it"
    assert re.search(r'<img alt="a up; b up[^"]*" src="data:image/svg\+xml;base64,', html)
    assert re.search(r"✓ \d+ hold", html)


def test_view_shows_no_tick_before_anything_was_judged() -> None:
    with up("two-peers", settings=["traffic=[]"]) as cluster:
        view = cluster.view()
        html = view.html()
        assert "✓" not in html
        assert "not judged" in html
