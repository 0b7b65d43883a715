"""Features that work without extras, and the one line for a missing extra."""

import gzip
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from toolkit.extras import EXTRAS

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "captures" / "reef-crc" / "capture.pcapng.gz"
_BLOCK = f"""
import sys
for module in {[*EXTRAS]}:
    sys.modules[module] = None  # as if it were not installed
"""
_COMMAND = "from toolkit.cli.main import main; main()"


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH: extras are missing in every Python that has it, child processes included."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "sitecustomize.py").write_text(_BLOCK)
    return folder


def python(
    blocked: Path, program: str, *arguments: object, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{blocked}{os.pathsep}{ROOT}"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "capture.pcapng"
    path.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    return path


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "run reconnect",
        "sim --seeds 1",
        "fault --list",
        "decode CAPTURE --limit 5",
        "decode CAPTURE --format json",
        "chart CAPTURE -o chart.html",
    ],
)
def test_simulator_and_decoder_need_no_extra(blocked: Path, line: str, capture: Path, tmp_path: Path) -> None:
    done = python(blocked, _COMMAND, *line.replace("CAPTURE", str(capture)).split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("decode CAPTURE --format csv", "pyarrow"),
        ("decode CAPTURE --format parquet -o x.parquet", "pyarrow"),
        ("analyze CAPTURE", "pandas"),
        ("run reconnect --backend docker", "docker"),
        ("up two-peers --backend netns", "pyroute2"),
    ],
)
def test_a_missing_extra_is_one_line_with_its_command(
    blocked: Path, line: str, module: str, capture: Path, tmp_path: Path
) -> None:
    done = python(blocked, _COMMAND, *line.replace("CAPTURE", str(capture)).split(), folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stderr == f"msgrlab: {module} is not installed: pip install 'msgrlab[{EXTRAS[module]}]'\n"


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import toolkit; toolkit.catalogue()", "pandas"),
        ("import toolkit.dissect.columns", "pyarrow"),
        ("import toolkit.dissect.layers", "scapy"),
    ],
)
def test_missing_extra_is_an_import_error_in_python(blocked: Path, line: str, module: str) -> None:
    done = python(blocked, f"try:\n    {line}\nexcept ImportError as error:\n    print(error)")
    assert done.stdout == f"{module} is not installed: pip install 'msgrlab[{EXTRAS[module]}]'\n", done.stderr


def test_extras_contain_their_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {module: extra for module, extra in EXTRAS.items() if extra in project["optional-dependencies"]}
    brought = {
        requirement.partition(">=")[0]: extra
        for extra, requirements in project["optional-dependencies"].items()
        for requirement in requirements
        if not requirement.startswith("msgrlab[")
    }
    assert named == brought == EXTRAS
    assert not any(requirement.startswith(tuple(EXTRAS)) for requirement in project["dependencies"])
