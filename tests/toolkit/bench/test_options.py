import pytest

from messenger.errors import LocalError
from toolkit.bench.cell import Grid, Pattern
from toolkit.bench.options import parse_grid


def test_parse_grid_without_options_returns_the_default_grid() -> None:
    assert parse_grid(None, None, None, None, None) == Grid()


def test_lists() -> None:
    grid = parse_grid("stream, request", "1,64,4K,2m", "1,32", "secure", "1,2")
    assert grid.patterns == [Pattern.STREAM, Pattern.REQUEST]
    assert grid.sizes == [1, 64, 4096, 2 << 20]
    assert grid.in_flight == [1, 32]
    assert grid.modes == ["secure"]
    assert grid.cores == [1, 2]


@pytest.mark.parametrize(
    "word", ["", "0", "x", "4X", "K", "4KK", "-1", "1.5K", "257M", "٣", "1e3", "4 K", "9" * 5000]
)
def test_parse_grid_refuses_invalid_sizes(word: str) -> None:
    with pytest.raises(LocalError, match=r"--sizes: .* is not a size from 1 to 256M"):
        parse_grid(None, f"64,{word}", None, None, None)


@pytest.mark.parametrize("word", ["", "0", "-1", "x", "65537", "1.0", "9" * 5000])
def test_parse_grid_refuses_invalid_numbers_in_flight(word: str) -> None:
    with pytest.raises(LocalError, match=r"--in-flight: .* is not a number from 1 to 65536"):
        parse_grid(None, None, word, None, None)


def test_unknown_name_is_an_error_with_the_known_names() -> None:
    with pytest.raises(LocalError, match="--patterns: unknown 'echo'; known: request, stream"):
        parse_grid("echo", None, None, None, None)
    with pytest.raises(LocalError, match="--modes: unknown ''; known: crc, secure"):
        parse_grid(None, None, None, "crc,", None)
    with pytest.raises(LocalError, match="--cores: unknown '3'; known: 1, 2"):
        parse_grid(None, None, None, None, "3")
