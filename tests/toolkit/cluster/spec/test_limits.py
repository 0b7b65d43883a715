"""Limits of numbers in specs: the last value that is accepted and the first that is not, on each side."""

from collections.abc import Iterator
from typing import Any

import pytest

from messenger.errors import LocalError
from toolkit.cluster.spec import parse_spec
from toolkit.cluster.spec.schema import json_schema

PEERS = "nodes: {a: {entity: osd.1}, b: {entity: osd.2}}\n"
TRAFFIC = PEERS + "traffic: [{from: a, to: b, KEY: N}]\n"
NODE = "nodes: {a: {entity: osd.1, KEY: N}}\n"
LINK = PEERS + "links: [{from: a, to: b, delay_ms: 5, reorder_percent: 1, KEY: N}]\n"
SLOT = PEERS + "links: [{from: a, to: b, delay_ms: 5, slot: {min_delay_ms: 1, max_delay_ms: 2, KEY: N}}]\n"
LIMITS = {
    "records": (PEERS + "KEY: N\n", 0, None),
    "judged_every": (PEERS + "KEY: N\n", 0, None),
    "disk_bytes": (PEERS + "KEY: N\n", 0, None),
    "seed": (PEERS + "KEY: N\n", 0, (1 << 64) - 1),
    "count": (NODE, 1, 200),
    "workers": (NODE, 0, 64),
    "objects": ("nodes: {mon: {ceph: mon}}\nceph: {pools: {KEY: N}}\n", 1, 256),
    "mtu": (PEERS + "networks: {public: {KEY: N}}\n", 576, 65_535),
    "size_bytes": (TRAFFIC, 0, 64 << 20),
    "reorder_gap": (LINK, 0, (1 << 32) - 1),
    "rate_bits_per_s": (LINK, 0, 10**13),
    "limit_packets": (LINK, 1, (1 << 32) - 1),
    "packets": (SLOT, 0, (1 << 31) - 1),
    "bytes": (SLOT, 0, (1 << 31) - 1),
    "count of traffic": (TRAFFIC, 0, (1 << 63) - 1),
}


def with_number(text: str, key: str, number: float) -> str:
    return text.replace("KEY: N", f"{key}: {number}")


def limit_cases(step: int) -> Iterator[Any]:
    """Both limits of each number (``step`` 0), or what lies just outside (1)."""
    for name, (text, least, most) in LIMITS.items():
        key = name.split()[0]
        yield pytest.param(with_number(text, key, least - step), id=f"{name} {least - step}")
        if most is not None:
            yield pytest.param(with_number(text, key, most + step), id=f"{name} {most + step}")


@pytest.mark.parametrize("text", list(limit_cases(0)))
def test_both_limits_are_accepted(text: str) -> None:
    assert parse_spec(text, "f.yaml").name == "f"


@pytest.mark.parametrize("text", list(limit_cases(1)))
def test_spec_refuses_values_out_of_range_and_names_the_limit(text: str) -> None:
    with pytest.raises(LocalError, match=r"^f\.yaml:\d: \S+: give (at least|at most|less than) \d+, not -?\d+$"):
        parse_spec(text, "f.yaml")


@pytest.mark.parametrize(("key", "most"), [("every_s", 1e6), ("lasts_s", 1e6), ("for_s", 1e6)])
def test_spec_requires_positive_times_of_chaos(key: str, most: float) -> None:
    text = PEERS + "chaos: {KEY: N}\n"
    for good in (0.001, most):
        assert parse_spec(with_number(text, key, good), "f.yaml").name == "f"
    for bad in (0, -1, most + 1):
        with pytest.raises(LocalError, match=rf"chaos\.{key}: give (more than|at most) "):
            parse_spec(with_number(text, key, bad), "f.yaml")


def test_every_number_with_a_limit_is_here() -> None:
    bounded = {
        name
        for definition in (json_schema(), *json_schema()["$defs"].values())
        for name, values in definition["properties"].items()
        if values.get("type") == "integer" and {"minimum", "maximum"} & values.keys()
    }
    assert bounded <= {name.split()[0] for name in LIMITS}
