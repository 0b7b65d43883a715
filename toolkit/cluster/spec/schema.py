"""The JSON schema of cluster specs, which editors use."""

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from toolkit.cluster.spec import parts
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.network import state

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_OF_LINKS = {
    "delay_ms": "Packets arrive so much later.",
    "jitter_ms": "How much the delay varies.",
    "delay_correlation_percent": "How much a delay is like the one before.",
    "loss": "Which packets are lost.",
    "duplicate_percent": "So many packets arrive twice.",
    "duplicate_correlation_percent": "How much it depends on whether the packet before did.",
    "reorder_correlation_percent": "How much it depends on whether the packet before did.",
    "corrupt_correlation_percent": "How much it depends on whether the packet before was.",
    "slot": "Packets are let go in bursts.",
    "percent": "So many packets are lost.",
    "correlation_percent": "How much it depends on whether the packet before was.",
    "p13": "From receiving in a gap to losing in a burst.",
    "p31": "From losing in a burst to receiving in a gap.",
    "p32": "From losing in a burst to receiving in a burst.",
    "p23": "From receiving in a burst to losing in a burst.",
    "p14": "From receiving in a gap to losing one packet.",
    "min_delay_ms": "Shortest time from one burst to the next.",
    "max_delay_ms": "Longest time from one burst to the next.",
    "packets": "At most so many in a burst; 0: any number.",
    "bytes": "At most so many in a burst; 0: any number.",
}
"""Descriptions of fields that have no docstring in :mod:`toolkit.network.state`."""


def json_schema() -> dict[str, Any]:
    """Return the schema, with a description of each field."""
    schema = ClusterSpec.model_json_schema(by_alias=True)
    models = {found.__name__: found for found in vars(parts).values() if isinstance(found, type)}
    models |= {found.__name__: found for found in vars(state).values() if isinstance(found, type)}
    for name, definition in schema["$defs"].items():
        _describe(definition, models[name])
    _describe(schema, ClusterSpec)
    schema["required"].remove("name")  # the file has one
    _allow_names_of_workloads(schema["properties"])
    return {"$schema": DIALECT, **schema, "title": "msgrlab cluster"}


def _allow_names_of_workloads(fields: dict[str, Any]) -> None:
    """Allow the name of a workload in place of a list of traffic; pydantic's schema has the list alone."""
    traffic = fields["traffic"]
    items = {key: traffic.pop(key) for key in ("type", "items")}
    traffic["anyOf"] = [items, {"enum": list(parts.WORKLOADS)}]


def _describe(definition: dict[str, Any], model: type[BaseModel]) -> None:
    definition["description"] = _flowing(definition["description"])
    texts = _OF_LINKS | {model.model_fields[name].alias or name: text for name, text in docstrings(model).items()}
    for name, field in definition.get("properties", {}).items():
        field.pop("title", None)
        field["description"] = _flowing(texts[name])
        if "patternProperties" in field:
            field["additionalProperties"] = False


def _flowing(text: str) -> str:
    """Join the lines of a docstring; editors break them themselves."""
    return " ".join(text.replace("``", "`").split())


def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields. Pydantic can do that, but only at each import of the model."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not issubclass(owner, BaseModel) or owner is BaseModel:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(tree, ast.ClassDef)
        for line, below in pairwise(tree.body):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                text = _constant(below)
                found |= {line.target.id: text} if text else {}
    return found


def _constant(line: ast.stmt) -> str:
    text = line.value.value if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) else ""
    return text if isinstance(text, str) else ""


def schema_text() -> str:
    """Return the content of clusters/schema.json."""
    return json.dumps(json_schema(), indent=2) + "\n"
