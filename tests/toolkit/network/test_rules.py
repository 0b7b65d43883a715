"""Rules as the kernel keeps them."""

import pytest

from toolkit.network.rules import Rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule("block", "a", "b"), "block a b"),
        (Rule("block", "a", "b", port=6800), "block a b port=6800"),
        (Rule("black_hole", "mon", "osd1", mtu_bytes=1400), "black_hole mon osd1 mtu_bytes=1400"),
    ],
)
def test_rule_has_a_description(rule: Rule, text: str) -> None:
    assert str(rule) == text
    assert Rule.parse(text) == rule
