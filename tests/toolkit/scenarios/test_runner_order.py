"""The order of a run's history."""

from toolkit.checks.history import History
from toolkit.scenarios.runner import in_order


def test_by_time_but_each_node_in_its_own_order() -> None:
    history = History()
    history.append(1.0, "b", "step", verb="first", args="")
    history.append(3.0, "a", "step", verb="third", args="")
    history.append(2.5, "a", "step", verb="fourth, stamped earlier", args="")
    history.append(2.0, "b", "step", verb="second", args="")
    history.append(4.0, "b", "step", verb="fifth", args="")
    words = [record["verb"].split(",")[0] for record in in_order(history)]
    assert words == ["first", "second", "third", "fourth", "fifth"]
