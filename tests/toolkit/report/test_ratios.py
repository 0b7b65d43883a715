"""Charts of ratios, as XML."""

import xml.etree.ElementTree as ET

import pytest

from toolkit.report.ratios import RatioChart, RatioRow

SVG = "{http://www.w3.org/2000/svg}"


def drawn(wanted: str, *rows: RatioRow) -> ET.Element:
    return ET.fromstring(RatioChart("ours / <theirs>", rows, wanted).svg())


def row(median: float, least: float, greatest: float) -> RatioRow:
    return RatioRow(f"{median:g}", median, least, greatest, "1 / 2 us")


@pytest.mark.parametrize(
    ("wanted", "looks"), [("less", ["good", "good", "other"]), ("more", ["other", "good", "good"])]
)
def test_rows_are_placed_by_their_ratios(wanted: str, looks: list[str]) -> None:
    chart = drawn(wanted, row(0.5, 0.4, 0.6), row(1, 1, 1), row(2, 1.8, 3.9))
    groups = chart.findall(f"{SVG}g")
    dots = [group.findall(f"{SVG}rect")[1] for group in groups]
    assert [dot.get("class") for dot in dots] == looks
    centres = [float(dot.get("x", "")) + float(dot.get("width", "")) / 2 for dot in dots]
    assert centres[1] - centres[0] == pytest.approx(centres[2] - centres[1], abs=0.2)
    labels = [text.text for text in chart.findall(f"{SVG}text[@class='axis']")]
    assert labels == ["1/4", "1/2", "1", "2", "4"]
    assert groups[2].findtext(f"{SVG}title") == "2: 2.00 (1.80 to 3.90)"


def test_ratios_beyond_the_axis_stay_in_the_picture() -> None:
    chart = drawn("less", row(1e9, 1e-9, 1e12))
    width = float(chart.get("width", ""))
    assert all(0 <= float(box.get("x", "")) <= width for box in chart.iter(f"{SVG}rect"))
    assert "ours / <theirs>" in [text.text for text in chart.findall(f"{SVG}text")]


def test_without_rows_there_is_an_axis() -> None:
    assert len(drawn("less").findall(f"{SVG}line")) == 3
