"""Rates over time: what arrived, how late, and what was broken."""

import re

import toolkit
from toolkit.checks.history import History
from toolkit.checks.index import Index
from toolkit.report.disturbances import Band
from toolkit.report.html import ScenarioReport, render_report
from toolkit.report.rates import Delivered, RateChart, deliveries_of


def test_columns_have_rates_and_the_spread_of_latencies() -> None:
    arrived = [Delivered(time_s, 500, latency_s) for time_s, latency_s in ((0.0, 0.1), (0.005, 0.2), (0.006, 0.9))]
    chart = RateChart([*arrived, Delivered(1.2, 500, None)], (), 0.0, 1.2)
    first, *_, last = chart.columns
    assert (round(first.messages_per_s), round(first.bytes_per_s)) == (300, 150_000)
    assert first.latencies == (0.2, 0.9)
    assert last.latencies is None
    assert round(last.messages_per_s) == 100


def test_latencies_are_those_of_the_deliveries_that_a_fault_held_back() -> None:
    lab = toolkit.open_lab(seed=1)
    lab.two("lossless_peer")
    lab.connect("a", "b")
    lab.exchange(count=5)
    lab.partition("a", "b")
    lab.send("a", "b", count=5)
    lab.wait(3)
    lab.heal()
    lab.settle()
    chart = lab.rates()
    longest_s = max(column.latencies[1] for column in chart.columns if column.latencies)
    assert 3 <= longest_s < 60
    assert re.search(r"partition a b from 0\.\d+ s to 3\.\d+ s", repr(chart))
    assert "delivery latency" in chart.svg()


def test_unfinished_band_reaches_to_the_edge_and_later_ones_are_omitted() -> None:
    bands = [Band("b killed", 5.0), Band("a stopped", 10.0)]
    drawn = RateChart([Delivered(1.0, 1, None)], bands, 0.0, 10.0).svg()
    assert "b killed from 5.000 s on" in drawn
    assert "a stopped" not in drawn
    (left, width) = re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"[^>]*class="broken"', drawn)[0]
    assert float(left) + float(width) == 66 + 760


def test_a_capture_has_rates_of_what_passed_and_no_latency() -> None:
    capture = toolkit.read_capture("tentacle-osds")
    drawn = RateChart.of(capture.history()).svg()
    assert "messages/s" in drawn
    assert "delivery latency" not in drawn


def test_messages_that_arrive_together_need_no_latency_each() -> None:
    run = toolkit.run("reconnect")
    first = next(record for record in run.history if record.kind == "deliver")
    again = History(record for record in run.history if record.time_s <= first.time_s)
    again.put(first.time_s, first.node, "deliver", {**first.fields, "tid": 99})  # its send is not recorded
    found = deliveries_of(Index(again))
    assert {each.latency_s is None for each in found} == {True, False}


def test_empty_history_gives_an_empty_rate_chart() -> None:
    assert "messages/s" in RateChart.of(History()).svg()


def test_a_report_has_the_rates_of_a_run_with_messages() -> None:
    run = toolkit.run("reconnect")
    report = ScenarioReport("x", "x", "", "sim", "crc", 1, None, 0, [], run.history, "")
    assert '<svg class="rates"' in render_report([report])
    empty = ScenarioReport("x", "x", "", "sim", "crc", 1, None, 0, [], History(), "")
    assert '<svg class="rates"' not in render_report([empty])
