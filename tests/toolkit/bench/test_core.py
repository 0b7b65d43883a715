import pytest

from toolkit.bench.core import LAYERS, CoreResult, measure_core


@pytest.mark.parametrize("mode", ["crc", "secure"])
@pytest.mark.parametrize("size", [1, 64, 70_000])
def test_every_layer_is_measured(mode: str, size: int) -> None:
    reported: list[CoreResult] = []
    results = measure_core([size], [mode], 0.0, reported.append)
    assert reported == results
    assert [result.layer for result in results] == list(LAYERS)
    for result in results:
        assert (result.size, result.mode) == (size, mode)
        assert 0 < result.build_us < 1e6
        assert 0 < result.parse_us < 1e6


def test_a_result_is_a_row_of_json() -> None:
    row = CoreResult(layer="frame", size=64, mode="crc", build_us=0.654, parse_us=1.057).as_json()
    assert row == {"layer": "frame", "size": 64, "mode": "crc", "build_us": 0.65, "parse_us": 1.06}
