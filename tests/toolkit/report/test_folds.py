"""Long charts made short, without hiding what matters."""

from hypothesis import given
from hypothesis import strategies as st

from toolkit.report.folds import cap, fold_frames, mark_silences
from toolkit.report.rows import Arrow, Fate, Gap, Steps


def message(seq, source="a", *, fate=Fate.ARRIVED, tag="MESSAGE", time_s=0.0):
    target = "b" if source == "a" else "a"
    return Arrow(time_s, source, target, tag, f"seq {seq}", fate, "", (seq, seq))


def summaries(rows):
    return [(row.source, row.count, row.seqs) for row in rows]


def test_short_runs_stay():
    rows = [message(seq) for seq in range(4)]
    assert fold_frames(rows, 12) == rows


def test_folding_keeps_first_and_last_frame_of_a_stretch():
    rows = fold_frames([message(seq) for seq in range(11, 53)], 12)
    assert summaries(rows) == [("a", 1, (11, 11)), ("a", 40, (12, 51)), ("a", 1, (52, 52))]
    assert rows[1].detail == "seq 12-51"
    assert rows[1].tip.splitlines()[0] == "40 frames MESSAGE a → b, arrived"


def test_lost_and_arrived_frames_fold_separately():
    rows = [message(seq, fate=Fate.ARRIVED if seq <= 10 else Fate.LOST) for seq in range(1, 21)]
    assert [(row.count, row.fate) for row in fold_frames(rows, 12)] == [
        (1, Fate.ARRIVED),
        (8, Fate.ARRIVED),
        (1, Fate.ARRIVED),
        (1, Fate.LOST),
        (8, Fate.LOST),
        (1, Fate.LOST),
    ]


def test_a_conversation_is_folded_by_direction():
    rows = [message(seq, source) for seq in range(1, 51) for source in "ab"]
    folded = fold_frames(rows, 12)
    assert summaries(folded[4:6]) == [("a", 46, (3, 48)), ("b", 46, (3, 48))]
    assert len(folded) == 10


def test_other_rows_end_a_run():
    rows = [*(message(seq) for seq in range(3)), Steps(0, ["send"]), *(message(seq) for seq in range(3))]
    assert fold_frames(rows, 12) == rows


def test_handshakes_are_never_folded():
    rows = [message(seq, tag="HELLO") for seq in range(40)]
    assert fold_frames(rows, 12) == rows


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(list(Fate))), max_size=60))
def test_folding_loses_no_frame(frames):
    rows = [message(seq, source, fate=fate) for seq, (source, fate) in enumerate(frames)]
    folded = fold_frames(rows, 6)
    assert sum(row.count for row in folded) == len(rows)
    for fate in Fate:
        assert sum(row.count for row in folded if row.fate is fate) == sum(row.fate is fate for row in rows)


def test_silences_are_marked():
    rows = [message(1, time_s=0.0), message(2, time_s=0.05), message(3, time_s=2.05)]
    marked = mark_silences(rows, 0.1)
    assert [row.text if isinstance(row, Gap) else row.seqs[0] for row in marked] == [
        1,
        2,
        "2 s of silence",
        3,
    ]
    assert mark_silences([], 0.1) == []


def test_a_cap_keeps_the_end():
    rows = [message(seq) for seq in range(100)]
    capped = cap(rows, 30)
    assert len(capped) == 31
    assert capped[10].text == "70 more rows"
    assert capped[-1].seqs == (99, 99)
    assert cap(rows, 100) == rows
