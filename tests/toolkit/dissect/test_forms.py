"""The Python form of the decoder and the compiled one have the same output, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from toolkit.bench.captures import RECIPES, write_capture

ROOT = Path(__file__).parents[3]
OUTPUTS = """
import sys
from toolkit.cli.main import run
from toolkit.form import TOOLKIT

print(TOOLKIT.form)
for capture in sys.argv[1:]:
    for form in "csv", "json":
        print(capture, run(["decode", capture, "--format", form]), flush=True)
"""


def outputs(pure: str, captures: list[Path]) -> tuple[str, str]:
    """The form that ran, and what it wrote."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "MSGRLAB_PURE": pure}
    command = [sys.executable, "-P", "-c", OUTPUTS, *map(str, captures)]
    text = subprocess.check_output(command, env=env, text=True, stderr=subprocess.STDOUT)
    form, _, text = text.partition("\n")
    return form, text


def damaged(capture: Path, seed: int) -> Path:
    """A copy with wrong bits here and there, most of them in messages."""
    rng = Random(seed)
    raw = bytearray(capture.read_bytes())
    for _ in range(40):
        raw[rng.randrange(1000, len(raw))] ^= 1 << rng.randrange(8)
    path = capture.with_name(f"damaged-{seed}.pcapng")
    path.write_bytes(raw)
    return path


@pytest.mark.needs("compiled")
def test_both_forms_have_the_same_output(tmp_path: Path) -> None:
    captures = [ROOT / "captures" / name / "capture.pcapng.gz" for name in ("reef-crc", "tentacle-osds")]
    for recipe in RECIPES:
        if recipe.name in {"v2 crc", "v2 crc small"}:
            path = tmp_path / f"{recipe.name}.pcapng"
            write_capture(recipe, path, 1024)
            captures += [path, *(damaged(path, seed) for seed in range(4))]
    python, compiled = outputs("1", captures), outputs("", captures)
    assert (python[0], compiled[0]) == ("Python", "compiled")
    assert python[1].count("\n") > 10_000
    assert python[1] == compiled[1]
