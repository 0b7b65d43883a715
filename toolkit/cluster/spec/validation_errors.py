"""Convert pydantic's errors to mistakes with a place and a hint."""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from toolkit.cluster.spec.mistakes import KIND, Mistake, Place
from toolkit.cluster.spec.model import ClusterSpec

_SHOWN_CHARS = 40
_TEXTS = {
    "missing": "it is missing",
    "string_type": "give text, not {shown}",
    "int_type": "give a whole number, not {shown}",
    "int_parsing": "give a whole number, not {shown}",
    "int_from_float": "give a whole number, not {shown}",
    "float_type": "give a number, not {shown}",
    "float_parsing": "give a number, not {shown}",
    "bool_type": "give true or false, not {shown}",
    "bool_parsing": "give true or false, not {shown}",
    "dict_type": "give a mapping (key: value), not {shown}",
    "model_type": "give a mapping (key: value), not {shown}",
    "union_tag_invalid": "give a mapping (key: value), not {shown}",
    "union_tag_not_found": "give a mapping (key: value), not {shown}",
    "tuple_type": "give a list, not {shown}",
    "literal_error": "unknown {shown}; known: {known}",
    "greater_than": "give more than {gt}, not {shown}",
    "greater_than_equal": "give at least {ge}, not {shown}",
    "less_than": "give less than {lt}, not {shown}",
    "less_than_equal": "give at most {le}, not {shown}",
}


def mistakes_of(error: ValidationError) -> Iterator[Mistake]:
    """Yield the mistakes in an error, one for each place."""
    seen: set[Place] = set()
    for detail in error.errors(include_url=False):
        for mistake in _mistakes(detail):
            if mistake.place not in seen:
                seen.add(mistake.place)
                yield mistake


def _mistakes(detail: ErrorDetails) -> list[Mistake]:
    place = tuple(part for part in detail["loc"] if not _is_branch(part))
    context: Mapping[str, Any] = detail.get("ctx", {})
    if detail["type"] == KIND:
        return [mistake.below(*place) for mistake in context["mistakes"]]
    if detail["type"] == "extra_forbidden":
        return [Mistake(place, _unknown_key(detail["loc"]))]
    text = _TEXTS.get(detail["type"])
    if text is None:
        return [Mistake(place, str(context.get("error", detail["msg"])))]
    known = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
    limits = {name: f"{value:g}" for name, value in context.items() if isinstance(value, float)}
    words = {**context, **limits, "shown": shown(detail["input"]), "known": known}
    return [Mistake(place, text.format(**words))]


def _is_branch(part: str | int) -> bool:
    """True if a part of pydantic's location names a branch of a union and is not in the document."""
    return isinstance(part, str) and (part.startswith(("<", "[")) or part in _LOSSES)


_LOSSES = {"RandomLoss", "GilbertElliott", "FourStates"}


def shown(value: object) -> str:
    """Abbreviate a value to fit in an error's line."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _unknown_key(place: Place) -> str:
    *parents, key = place
    fields = known_keys(tuple(parents))
    near = get_close_matches(str(key), fields, n=1)
    if near:
        return f"unknown key; did you mean {near[0]}?"
    return f"unknown key; known: {', '.join(fields)}"


def known_keys(place: Place) -> list[str]:
    """Return the keys that a mapping of a spec accepts.

    Args:
        place: pydantic's location of the mapping, which names branches of unions.
    """
    kinds: list[Any] = [ClusterSpec]
    for part in place:
        if _is_branch(part):
            kinds = [kind for kind in kinds if getattr(kind, "__name__", "") == str(part).strip("<>")]
        else:
            kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    models = [kind for kind in kinds if _is_model(kind)]
    return list(dict.fromkeys(alias for model in models for alias in _aliases(model)))


def _is_model(kind: Any) -> bool:  # noqa: ANN401 - an annotation
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _aliases(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _inside(kind: Any, part: str | int) -> Iterator[Any]:  # noqa: ANN401 - annotations
    """Yield the annotations that a key or position of a value of this kind can have."""
    if _is_model(kind):
        field = _aliases(kind).get(str(part))
        if field is not None:
            yield from _branches(field.annotation)
        return
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        yield from _branches(arguments[1])
    elif get_origin(kind) is tuple:
        yield from _branches(arguments[0])


def _branches(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - annotations
    """Yield every branch of a union, without ``Annotated`` metadata."""
    if hasattr(kind, "__metadata__"):
        yield from _branches(kind.__origin__)
    elif get_origin(kind) in (dict, tuple) or not get_args(kind):
        yield kind
    else:
        for argument in get_args(kind):
            yield from _branches(argument)
