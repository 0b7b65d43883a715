"""The schema for editors accepts and refuses the same as the model."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from toolkit.cluster.spec import ready_made
from toolkit.cluster.spec.schema import json_schema, schema_text

CLUSTERS = Path(__file__).parents[4] / "clusters"
SCHEMA = json_schema()
META_SCHEMA = jsonschema.Draft202012Validator.META_SCHEMA


def errors_of(values: object) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(values)]


def errors_in(text: str) -> list[str]:
    return errors_of(json.loads(json.dumps(YAML(typ="safe", pure=True).load(text))))


def test_schema_file_is_current() -> None:
    text = (CLUSTERS / "schema.json").read_text()
    assert text == schema_text(), "python -m toolkit.cluster.spec > clusters/schema.json"


def test_schema_is_valid_json_schema() -> None:
    assert list(jsonschema.Draft202012Validator(META_SCHEMA).iter_errors(SCHEMA)) == []


def test_everything_is_described() -> None:
    bare = [
        f"{name}.{field}"
        for name, definition in {"": SCHEMA, **SCHEMA["$defs"]}.items()
        for field, values in definition["properties"].items()
        if not values.get("description")
    ]
    assert bare == []
    assert all("description" in definition for definition in SCHEMA["$defs"].values())


@pytest.mark.parametrize("name", ready_made())
def test_schema_accepts_ready_made_specs(name: str) -> None:
    assert errors_in(ready_made()[name].read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "nodes: {A: {entity: osd.1}}",
        "nodes: {a: {entity: osd.1, x: 1}}",
        "nodes: {a: {ceph: rgw}}",
        "nodes: {a: {entity: osd.1}}\ntraffic: [{sender: a, to: b}]",
        "nodes: {a: {entity: osd.1}}\nlinks: [{from: a, to: b, delay: 1}]",
        "nodes: {a: {entity: osd.1}}\nseed: x",
        "backend: process",
    ],
)
def test_schema_rejects_mistakes(text: str) -> None:
    assert errors_in(text) != []


def test_schema_accepts_the_json_of_a_spec() -> None:
    from toolkit.cluster.spec import read_spec

    values: dict[str, Any] = read_spec("mesh").as_json()
    assert errors_of(values) == []
