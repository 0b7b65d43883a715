"""The examples in docs/clusters.md are specs."""

import re
from pathlib import Path

import pytest

from toolkit.cluster.spec import ClusterSpec, parse_spec

PAGE = (Path(__file__).parents[4] / "docs" / "clusters.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_a_spec(text: str) -> None:
    assert parse_spec(text, "clusters.md").nodes


def test_every_part_of_a_spec_has_an_example() -> None:
    shown = {field for text in EXAMPLES for field in parse_spec(text, "x.yaml").model_fields_set}
    assert set(ClusterSpec.model_fields) - shown == set()
