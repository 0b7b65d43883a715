"""docs/scenarios.md has every verb of a lab, and its examples run."""

import re
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import toolkit
from tests.support.needs import require
from toolkit.cli.main import run as msgrlab
from toolkit.errors import Unsupported
from toolkit.lab.lab import Lab
from toolkit.lab.real.real_lab import RealLab

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "scenarios.md"
TAKE_PROCESSES = {"limit_descriptors", "limit_memory"}
TAKE_SECURE_MODE = {"use_up_nonces"}
TAKE_PACKETS = {"impair", "black_hole", "nat", "nat_flush", "forge_reset", "expect_faults", "expect_fault_count"}


@cache
def _script() -> ModuleType:
    spec = spec_from_file_location("scenarios_page", ROOT / "docs" / "scenarios.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GROUPS = tuple(_script().GROUPS)
EXAMPLES = [(group, name) for group in GROUPS for name in _script().examples(group)]


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == _script().page(), "run: python docs/scenarios.py"


def test_every_verb_has_one_example() -> None:
    assert sorted(name for _, name in EXAMPLES) == sorted(_script().verbs())


@pytest.mark.parametrize(("group", "name"), EXAMPLES, ids=[name for _, name in EXAMPLES])
def test_an_example_runs(group: str, name: str) -> None:
    example = _script().examples(group)[name]
    with _lab(name) as lab:
        _script().prepare(group, example, lab)
        example(lab)
        if name != "close":
            assert [result.id for result in lab.check() if not result.ok] == []


def _lab(name: str) -> Lab:
    if name in TAKE_PACKETS:
        require("netns", "nft")
        return toolkit.open_lab("netns")
    if name in TAKE_PROCESSES:
        return RealLab("local", processes=True)
    return toolkit.open_lab(mode="secure" if name in TAKE_SECURE_MODE else "crc")


def test_simulator_reports_unsupported_scenarios() -> None:
    with toolkit.open_lab() as lab:
        lab.two()
        with pytest.raises(Unsupported, match=r"nat a b: a simulated network has no packets: --backend netns"):
            lab.nat("a", "b")


BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
COMMANDS = next(block for kind, block in BLOCKS if not kind).splitlines()
SCENARIO = next(block for kind, block in BLOCKS if kind == "python" and "@scenario" in block)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_runs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    words = line.partition("#")[0].split()[1:]
    assert msgrlab([word.replace("100", "2") for word in words]) == 0
