from hypothesis import given
from hypothesis import strategies as st

from toolkit.bench.cell import IN_FLIGHT, MODES, SIZES, Cell, Grid, Pattern, Result


def cell(pattern: Pattern = Pattern.REQUEST, in_flight: int = 32) -> Cell:
    return Cell(pattern=pattern, size=4096, in_flight=in_flight, mode="crc", cores=1)


def test_every_request_is_answered_and_half_a_window_of_a_stream() -> None:
    assert cell().per_reply == 1
    assert cell(Pattern.STREAM).per_reply == 16
    assert cell(Pattern.STREAM, in_flight=1).per_reply == 1


@given(
    st.sampled_from(Pattern),
    st.integers(min_value=1, max_value=1000),
    st.floats(min_value=0, max_value=1e6),
)
def test_a_run_fills_the_window_and_ends_with_an_answer(pattern: Pattern, in_flight: int, count: float) -> None:
    measured = cell(pattern, in_flight)
    rounded = measured.rounded(count)
    assert rounded >= in_flight
    assert rounded % measured.per_reply == 0
    assert abs(rounded - count) <= measured.per_reply or rounded < in_flight + measured.per_reply


def test_the_full_grid_is_every_combination() -> None:
    cells = Grid().cells((1, 2), full=True)
    assert len(set(cells)) == len(cells) == 2 * len(SIZES) * len(IN_FLIGHT) * len(MODES) * 2


def test_the_quick_grid_leaves_out_streams_that_are_requests() -> None:
    left_out = set(Grid().cells((1, 2), full=True)) - set(Grid().cells((1, 2), full=False))
    assert left_out
    assert all(row.pattern is Pattern.STREAM and row.in_flight == 1 for row in left_out)


def test_grid_contains_only_the_requested_cells() -> None:
    grid = Grid(patterns=[Pattern.STREAM], sizes=[7], in_flight=[1], modes=["secure"], cores=[1])
    only = Cell(pattern=Pattern.STREAM, size=7, in_flight=1, mode="secure", cores=1)
    assert grid.cells((1, 2), full=False) == [only]


def result(in_flight: int) -> Result:
    return Result(
        cell=cell(in_flight=in_flight),
        ops_per_s=50_000.04,
        floor_ops_per_s=100_000.0,
        cpu_us_per_op=13.456,
        floor_cpu_us_per_op=4.321,
        peak_rss_mib=33.33,
    )


def test_one_in_flight_has_a_latency() -> None:
    assert result(1).latency_us == 20.0
    assert result(1).floor_latency_us == 10.0


def test_a_result_is_a_row_of_json() -> None:
    assert result(32).as_json() == {
        "pattern": "request",
        "size": 4096,
        "in_flight": 32,
        "mode": "crc",
        "cores": 1,
        "protocol": "v2",
        "ops_per_s": 50_000.0,
        "floor_ops_per_s": 100_000.0,
        "ratio": 0.5,
        "latency_us": None,
        "floor_latency_us": None,
        "cpu_us_per_op": 13.46,
        "floor_cpu_us_per_op": 4.32,
        "peak_rss_mib": 33.3,
    }
