import pytest

from toolkit.bench.idle import IdleResult, measure_idle

MOST_BYTES = 80 * 1024**2 / 10_000


@pytest.mark.parametrize("mode", ["crc", "secure"])
def test_ten_thousand_idle_connections_are_80_mib(mode: str) -> None:
    told: list[IdleResult] = []
    (result,) = measure_idle([mode], 200, told.append)  # tables grow in steps
    assert told == [result]
    assert (result.mode, result.connections) == (mode, 200)
    assert 1000 < result.python_bytes_per_connection <= MOST_BYTES


def test_a_result_is_a_row_of_json() -> None:
    row = IdleResult(mode="crc", connections=7, python_bytes_per_connection=6000).as_json()
    assert row == {"mode": "crc", "connections": 7, "python_bytes_per_connection": 6000}
