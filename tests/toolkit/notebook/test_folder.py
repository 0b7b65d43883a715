"""An installed wheel has the notebooks and the captures that they read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, toolkit
from pathlib import Path
from toolkit.capture.ready_made import ready_made
from toolkit.notebook.folder import provide
folder, copied = provide(None)
from toolkit.new_project import create
made = len(create(Path("tests")))
frames = {name: len(toolkit.read_capture(name).frames) for name in ready_made()}
print(json.dumps([toolkit.__file__, str(folder), copied, frames, made]))
"""


def test_an_installed_wheel_provides_them(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    installed = tmp_path / "installed"
    with ZipFile(built) as wheel:
        wheel.extractall(installed)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    module, folder, copied, frames, made = json.loads(done.stdout)
    assert Path(module).is_relative_to(installed)
    assert folder == "msgrlab-notebooks"
    written = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.name for path in (tmp_path / folder).iterdir()} == written
    assert copied == len(written)
    used = {name for name in (path.name for path in (ROOT / "captures").iterdir()) if _mentions(written, name)}
    assert used <= set(frames), "add them to pyproject.toml"
    assert all(frames.values())
    assert made == sum(path.is_file() for path in (ROOT / "templates" / "tests").rglob("*.*")) + 1  # gitignore


def _mentions(notebooks: set[str], capture: str) -> bool:
    texts = ((ROOT / "notebooks" / name).read_text() for name in notebooks)
    return any(f'read_capture(\\"{capture}\\"' in text for text in texts)
