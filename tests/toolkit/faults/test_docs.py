"""docs/faults.md has every word, and its examples have the described effect."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from toolkit.cluster.nemesis import Crowd, Timeline, draw
from toolkit.cluster.spec.model import Chaos
from toolkit.faults.language import parse, words

TEXT = (Path(__file__).parents[3] / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z-]+)([^`|]*)` \| `([^`|]+)` \|", TEXT, re.MULTILINE)
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = re.findall(r"^    msgrlab fault (.*)$", TEXT, re.MULTILINE)


def test_every_word_has_its_row() -> None:
    assert {word for word, _, _ in ROWS} == {word.word for word in words()} - {"undo", "mend"}


@pytest.mark.parametrize(("word", "usage", "example"), ROWS, ids=lambda text: text[:12])
def test_examples_are_faults(word: str, usage: str, example: str) -> None:
    fault = parse(example)
    assert fault.WORD == word  # noqa: SIM300 - no constant
    shown = next(each.usage for each in words() if each.word == word)
    assert set(re.findall("--[a-z-]+", usage)) == set(re.findall("--[a-z-]+", shown))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_faults(command: str) -> None:
    assert command.split(maxsplit=1)[0] == parse(command).WORD


def test_the_timeline_is_one() -> None:
    (text,) = [block for kind, block in BLOCKS if kind == "yaml" and block.startswith("timeline")]
    assert len(Timeline.of_values(YAML(typ="safe").load(text))) == 5


def test_the_chaos_is_drawn() -> None:
    (text,) = [block for kind, block in BLOCKS if kind == "yaml" and block.startswith("chaos")]
    chaos = Chaos(**YAML(typ="safe").load(text)["chaos"])
    assert len(draw(chaos, Crowd(("a", "b"), ("a", "b")))) > 60


@pytest.mark.parametrize("program", [block for kind, block in BLOCKS if kind == "python"])
def test_programs_of_the_page_import_existing_names(program: str) -> None:
    tree = ast.parse(program)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert imports
    for node in imports:
        module = importlib.import_module(node.module or "")
        assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
