"""Parse YAML text into plain values with the line of each; any text gives a document or one clear error."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from toolkit.cluster.spec.mistakes import Mistake, Place

MAX_CHARS = 200_000
MAX_VALUES = 50_000
"""More than any cluster needs; a short text can exceed it with aliases of aliases."""
_MAX_DEPTH = 30
_MOST_BITS = 128
_TAG = "tag:yaml.org,2002:"
_SCALARS = ("null", "bool", "int", "float")
_TEXTS = ("str", "timestamp")


class BadDocument(Exception):
    """The text is not YAML that a spec can have; ``text`` says why, ``line`` where."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(slots=True)
class Document:
    """Values of a text, and the lines they stand in."""

    value: Any = None
    """The values as JSON types: dict, list, str, int, float, bool, None."""
    lines: dict[Place, int] = field(default_factory=dict)
    """Line number of each key and item; the first line is 1."""
    mistakes: list[Mistake] = field(default_factory=list)
    """Mistakes that leave the rest of the document readable, such as duplicate keys."""

    def line_of(self, place: Place) -> int:
        """Return the line of a place; if nothing stands there, that of the nearest place around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def parse_document(text: str, max_chars: int = MAX_CHARS, max_values: int = MAX_VALUES) -> Document:
    """Parse a YAML text.

    Args:
        text: YAML.
        max_chars: most characters of the text.
        max_values: most values, counting repetitions by aliases.

    Raises:
        BadDocument: it is not YAML, or exceeds a limit.
    """
    if len(text) > max_chars:
        raise BadDocument(1, f"{len(text)} characters are too many: {max_chars} are possible")
    yaml = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            root = yaml.compose(text)
        if root is None:
            return Document()
        reader = _Reader(yaml.constructor, max_values)
        reader.document.lines[()] = _line(root)
        reader.document.value = reader.read(root, (), ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadDocument(1 if mark is None else mark.line + 1, _words(error)) from None
    except YAMLError as error:
        position = getattr(error, "position", 0)
        raise BadDocument(_line_at(text, position), _strange_character(text, position)) from None
    except RecursionError:
        raise BadDocument(1, "nested too deeply") from None
    return reader.document


def _words(error: MarkedYAMLError) -> str:
    context = f" {error.context}" if error.context else ""
    return f"not YAML: {error.problem or 'something is wrong'}{context}"


def _strange_character(text: str, position: int) -> str:
    found = text[position : position + 1]
    return f"not YAML: it cannot have the character {found!r}" if found else "not YAML"


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


class _Reader:
    """Converts YAML nodes to values; aliases are followed within the limits on values and depth."""

    def __init__(self, constructor: SafeConstructor, max_values: int) -> None:
        self.document = Document()
        self._constructor = constructor
        self._values = 0
        self._max_values = max_values

    def read(self, node: Node, place: Place, inside: tuple[int, ...]) -> Any:  # noqa: ANN401 - JSON
        self._values += 1
        if self._values > self._max_values:
            repeated = "counting what aliases (*name) repeat"
            raise BadDocument(_line(node), f"more than {self._max_values} values, {repeated}")
        if id(node) in inside:
            raise BadDocument(_line(node), "an alias (*name) to a value that contains it")
        if len(inside) > _MAX_DEPTH:
            raise BadDocument(_line(node), "nested too deeply")
        inside = (*inside, id(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, place, inside)
        if isinstance(node, SequenceNode):
            self._check_tag(node, "seq")
            return [self._item(each, (*place, position), inside) for position, each in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, place)

    def _item(self, node: Node, place: Place, inside: tuple[int, ...]) -> Any:  # noqa: ANN401 - JSON
        self.document.lines[place] = _line(node)
        return self.read(node, place, inside)

    def _mapping(self, node: MappingNode, place: Place, inside: tuple[int, ...]) -> dict[str, Any]:
        self._check_tag(node, "map")
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise BadDocument(_line(key), "a key must be a word, not a list or a mapping")
            name = str(key.value)
            _check_text(name, key)
            if key.tag == f"{_TAG}merge":
                raise BadDocument(_line(key), "merge keys (<<) are not supported; `count` makes similar nodes")
            here = (*place, name)
            if name in values:
                first = self.document.lines[here]
                self.document.mistakes.append(Mistake(here, f"it is there twice, first in line {first}"))
                self.document.lines[here] = _line(key)
                continue
            self.document.lines[here] = _line(key)
            values[name] = self.read(value, here, inside)
        return values

    def _check_tag(self, node: Node, wanted: str) -> None:
        if node.tag != _TAG + wanted:
            raise BadDocument(_line(node), f"tags (!name) are not supported: {node.tag}")

    def _scalar(self, node: ScalarNode, place: Place) -> Any:  # noqa: ANN401 - JSON
        kind = str(node.tag).removeprefix(_TAG)
        if kind in _TEXTS:
            _check_text(node.value, node)
            return str(node.value)
        if kind not in _SCALARS:
            raise BadDocument(_line(node), f"tags (!name) are not supported: {node.tag}")
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, ArithmeticError, LookupError):
            value = math.nan
        if (isinstance(value, float) and not math.isfinite(value)) or _is_too_large(value):
            self.document.mistakes.append(
                Mistake(place, f"{str(node.value)[:40]!r} is no number that can be used")
            )
            return 0
        return value


def _is_too_large(value: object) -> bool:
    """True if a whole number exceeds every field's range; Python refuses to print very long ones."""
    return isinstance(value, int) and value.bit_length() > _MOST_BITS


def _check_text(text: str, node: Node) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadDocument(_line(node), "half a surrogate pair is no character") from None
