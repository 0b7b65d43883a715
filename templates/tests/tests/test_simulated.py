"""Labs on virtual time: an hour takes milliseconds, and a seed repeats a run."""

from toolkit.pytest_plugin import Simulations


def test_an_idle_session_outlives_its_link(msgrlab_sim: Simulations) -> None:
    lab = msgrlab_sim("secure")
    lab.two()
    lab.exchange(count=3)
    lab.cut("a", "b")
    lab.wait(3600)
    lab.exchange(count=3)
    lab.settle()
    assert lab.tids("b") == [1, 2, 3, 4, 5, 6]


def test_a_random_life_ends_well(msgrlab_sim: Simulations) -> None:
    msgrlab_sim.live(7)
