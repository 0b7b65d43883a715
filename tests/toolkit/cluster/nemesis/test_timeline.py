"""Timelines as text, YAML and parts."""

from itertools import pairwise
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.cluster.nemesis import Crowd, Timeline, TimelineStep, draw
from toolkit.cluster.nemesis.shrink import shrink
from toolkit.cluster.spec.model import Chaos, ClusterSpec
from toolkit.faults.language import parse

CROWD = Crowd(("a", "b", "c"), ("a", "b", "c"))


def timeline(*steps: tuple[float, str]) -> Timeline:
    return Timeline.of(TimelineStep(at_s, parse(text)) for at_s, text in steps)


STORY = timeline(
    (3.0, "undo partition a b"),
    (1.0, "partition a b"),
    (2.0, "kill c"),
    (2.5, "reset a b"),
    (4.0, "undo kill c"),
    (5.0, "arm a 'MESSAGE READ' BLOCK"),
)


BILLION = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in pairwise("_abcdefghi")
)
"""Each line repeats the one before it nine times."""
BILLION = BILLION.replace("*_", "x")


def test_steps_are_in_order_and_shown() -> None:
    assert [step.at_s for step in STORY] == [1.0, 2.0, 2.5, 3.0, 4.0, 5.0]
    assert str(STORY).splitlines()[0] == "   1.000  partition a b"
    assert STORY.duration_s == 5.0


def test_load_reads_the_yaml_of_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "timeline.yaml"
    path.write_text(STORY.yaml("seed 7\nfound by chaos"), encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("# seed 7\n# found by chaos\ntimeline:\n- {at_s: 1, fault:")
    assert Timeline.load(path) == STORY
    path.write_text(Timeline().yaml(), encoding="utf-8")
    assert Timeline.load(path) == Timeline()


def test_spec_accepts_a_timeline() -> None:
    nodes = {name: {"entity": f"osd.{number}"} for number, name in enumerate("abc")}
    spec = ClusterSpec.model_validate({"name": "t", "nodes": nodes, "timeline": STORY.values()})
    assert Timeline.of_moments(spec.timeline) == STORY


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("timeline: [", "timeline.yaml:1: not YAML"),
        ("a:\n  &a [*a]", "timeline.yaml:2: an alias (*name) to a value that contains it"),
        ("[" * 10_000, "timeline.yaml:1: nested too deeply"),
        (BILLION, "timeline.yaml:1: more than 100000 values, counting what aliases (*name) repeat"),
        ("- {at_s: 1, fault: !!python/name:os.system x}", "timeline.yaml:1: tags (!name) are not supported"),
        (f"- {{at_s: 1, fault: {'heal ' * 1000}}}", "step 1: a fault of 4999 characters, 4096 are possible"),
        (f"- {{at_s: {'heal ' * 1000}, fault: heal}}", "step 1: at_s is 'heal heal"),
        (f"- {{at_s: 0x{'f' * 5000}, fault: heal}}", "timeline.yaml:1: '0xff"),
        ("timeline: 7", "a timeline is a list of {at_s: SECONDS, fault: FAULT}"),
        ("- {at_s: 1}", "step 1 is not {at_s: SECONDS, fault: FAULT}"),
        ("- {at_s: -1, fault: heal}", "step 1: at_s is -1"),
        ("- {at_s: .nan, fault: heal}", "timeline.yaml:1: '.nan' is no number that can be used"),
        ("- {at_s: 1, fault: heal}\n- {at_s: 2, fault: kil b}", "step 2: fault, column 1: no fault 'kil'; did"),
    ],
)
def test_load_reports_mistakes_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "timeline.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LocalError) as caught:
        Timeline.load(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("name", "complaint"), [("/nowhere.yaml", "No such file"), ("/dev/zero", "is a device")])
def test_no_file(name: str, complaint: str) -> None:
    with pytest.raises(LocalError, match=complaint):
        Timeline.load(name)


def test_units_keep_a_fault_with_its_undo() -> None:
    assert STORY.units() == [(0, 3), (1, 4), (2,), (5,)]
    assert str(STORY.only([(0, 3), (5,)])) == str(
        timeline((1.0, "partition a b"), (3.0, "undo partition a b"), (5.0, "arm a 'MESSAGE READ' BLOCK"))
    )


def test_shrink_finds_the_failing_step() -> None:
    whole = draw(Chaos(seed=3, for_s=120), CROWD)
    culprit = next(step for step in whole if step.fault.WORD == "partition")
    asked = []

    def fails(part: Timeline) -> bool:
        asked.append(part)
        return culprit in part.steps

    least = shrink(fails, whole)
    assert least.steps[0] == culprit
    assert len(least.units()) == 1
    assert len(asked) <= 30


def test_shrink_stops_after_the_given_number_of_runs() -> None:
    asked = []
    assert shrink(lambda part: bool(asked.append(part)), STORY, most_runs=2) == STORY
    assert len(asked) == 2
