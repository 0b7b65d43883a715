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
    "delay_ms": "Delay of each packet, in milliseconds.",
    "jitter_ms": "Variation of the delay, in milliseconds.",
    "delay_correlation_percent": "Correlation of each packet's delay with the previous one's.",
    "loss": "Model of packet loss.",
    "duplicate_percent": "Share of packets that arrive twice.",
    "duplicate_correlation_percent": "Correlation of duplication with the previous packet's.",
    "reorder_correlation_percent": "Correlation of reordering with the previous packet's.",
    "corrupt_correlation_percent": "Correlation of corruption with the previous packet's.",
    "slot": "Send packets in bursts.",
    "percent": "Share of packets that are lost.",
    "correlation_percent": "Correlation of loss with the previous packet's.",
    "p13": "Transition from receiving in a gap to losing in a burst.",
    "p31": "Transition from losing in a burst to receiving in a gap.",
    "p32": "Transition from losing in a burst to receiving in a burst.",
    "p23": "Transition from receiving in a burst to losing in a burst.",
    "p14": "Transition from receiving in a gap to losing one packet.",
    "min_delay_ms": "Shortest time between two bursts, in milliseconds.",
    "max_delay_ms": "Longest time between two bursts, in milliseconds.",
    "packets": "Most packets in a burst; 0: no limit.",
    "bytes": "Most bytes in a burst; 0: no limit.",
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
