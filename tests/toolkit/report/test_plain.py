"""The sequence chart in letters."""

import toolkit
from toolkit.report.plain import plain_chart


def test_each_frame_has_a_line_with_its_time_and_way() -> None:
    lines = plain_chart(toolkit.run("standby").history, 1000)
    assert any(line.split()[1:5] == ["a", "→", "b", "BANNER"] for line in lines)
    assert any("STANDBY]" in line for line in lines)
    assert any("a x b" in line and "cut" in line for line in lines)
    assert any("# send" in line for line in lines)
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


def test_only_the_last_frames_are_shown() -> None:
    history = toolkit.run("reconnect").history
    lines = plain_chart(history, 5)
    assert sum("→" in line for line in lines) == 5
    assert lines == plain_chart(history, 1000)[-len(lines) :]


def test_lost_frames_are_marked() -> None:
    lines = plain_chart(toolkit.run("reconnect", cuts=["a:MESSAGE:10:20"]).history, 1000)
    assert any(line.endswith("(lost)") and "MESSAGE" in line for line in lines)
