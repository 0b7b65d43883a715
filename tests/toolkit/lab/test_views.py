"""A lab as a notebook has it: opened by name, looked at between two steps."""

import pytest

import toolkit
from messenger import LocalError


def test_lab_shows_sessions_frames_and_charts_between_steps() -> None:
    with toolkit.open_lab(mode="secure", seed=2) as lab:
        assert repr(lab) == "<Lab sim, v2-secure, seed 2, 0.000 s: no nodes>"
        assert lab.sessions().empty
        lab.two("lossless_peer")
        lab.connect("a", "b")
        lab.exchange(count=2)
        lab.settle()
        cut_s = lab.now_s
        lab.cut("a", "b")
        lab.wait(1)
        sessions = lab.sessions().set_index("node")
        assert sessions.state.to_dict() == {"a": "STANDBY", "b": "STANDBY"}
        assert sessions.in_seq.to_dict() == {"a": 2, "b": 2}
        assert lab.now_s == pytest.approx(cut_s + 1)
        assert set(lab.chart(cut_s).table().frame) == set(), "nobody dials"
        assert not lab.chart(0, cut_s).table().empty
        lab.settle()
        assert all(result.ok for result in lab.check())


def test_sessions_of_dead_nodes_are_not_shown() -> None:
    lab = toolkit.open_lab()
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.kill("b")
    assert lab.sessions().node.tolist() == ["a"]
    assert "b (down)" in repr(lab)


def test_lab_check_finds_a_dropped_message() -> None:
    lab = toolkit.open_lab()
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.script("a", "b", "-> MESSAGE #1: drop")
    lab.send("a", "b", count=2)
    lab.settle()
    assert "INV-8" in [result.id for result in lab.check() if not result.ok]


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"backend": "cloud"}, "unknown backend 'cloud'; known: sim, local, netns, docker, rdma"),
        ({"mode": "plain"}, "unknown mode 'plain'; known: crc, secure, compressed"),
        ({"protocol": "v3"}, "unknown protocol 'v3'; known: v1, v2"),
    ],
)
def test_open_lab_refuses_unknown_arguments(how: dict[str, str], complaint: str) -> None:
    with pytest.raises(LocalError) as refused:
        toolkit.open_lab(**how)
    assert str(refused.value) == complaint
