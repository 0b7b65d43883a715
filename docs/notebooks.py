"""Runs the notebooks and stores the outputs in them, so that they can be read without running anything.

``python docs/notebooks.py [NAME...]`` runs all of them, or some, in processes of their own. A cell whose output
differs from run to run (real processes, real time) has the tag ``live``: its output is kept until the code of its
notebook changes. All other outputs are the same on every run, which tests/test_notebooks.py checks.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

FOLDER = Path(__file__).parents[1] / "notebooks"
LIVE = "live"
"""Tag of cells whose output differs from run to run."""
LIVE_NOTEBOOKS = frozenset({"30-clusters", "32-live-view"})
"""Notebooks in which all cells are live."""
_TIMEOUT_S = 180
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_JOBS = 2
_WIDGET = "application/vnd.jupyter.widget-view+json"
_ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""The address in the default repr of an object, which differs from run to run."""


def digest(notebook: NotebookNode) -> str:
    """Return a hash of the code of a notebook; outputs are current if they were made from the same code."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sha256("\0".join(code).encode()).hexdigest()[:16]


def kept(path: Path) -> NotebookNode:
    """Read a notebook from its file."""
    return nbformat.read(path, as_version=4)


def executed(path: Path) -> tuple[NotebookNode, list[Path]]:
    """Run a notebook from top to bottom in an empty directory.

    Returns:
        The notebook with its outputs, and the files that it left in the directory.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = kept(path)
    code = digest(notebook)
    with TemporaryDirectory() as directory, TemporaryDirectory() as state:
        client = NotebookClient(
            notebook,
            timeout=_TIMEOUT_S,
            record_timing=False,
            resources={"metadata": {"path": directory}},
            config=_sockets_in(state),
        )
        client.execute(env=environ | {"MSGRLAB_STATE": f"{state}/msgrlab", "PYTHONHASHSEED": "0", "NO_COLOR": "1"})
        left = list(Path(directory).iterdir())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _normalised(cell.outputs)
    notebook.metadata = nbformat.from_dict(_METADATA | {"msgrlab": {"code": code}})
    return notebook, left


def _sockets_in(directory: str) -> Config:
    """Make a kernel listen on sockets in a directory, because two kernels may choose the same free TCP port."""
    return Config(KernelManager={"transport": "ipc", "ip": f"{directory}/kernel"})


def is_live(path: Path, cell: NotebookNode) -> bool:
    """True if the output of a cell differs from run to run."""
    return path.stem in LIVE_NOTEBOOKS or LIVE in cell.metadata.get("tags", ())


def _normalised(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs as they are stored: streams in one piece, charts only as SVG, which repositories preview.

    Of a widget its HTML is kept, which needs no kernel.
    """
    whole: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and whole and whole[-1].get("name") == output.name:
            whole[-1].text += output.text
            continue
        data = output.get("data", {})
        data.pop(_WIDGET, None)
        if "image/svg+xml" in data:
            data.pop("text/html", None)
        if "text/plain" in data:
            data["text/plain"] = _ADDRESS.sub("", data["text/plain"])
        whole.append(output)
    return whole


def render(path: Path) -> bool:
    """Run a notebook and write its outputs into its file; return True if the file has changed."""
    before = kept(path)
    after, left = executed(path)
    if left:
        raise SystemExit(f"{path.name} leaves files behind: {', '.join(file.name for file in left)}")
    if before.metadata.get("msgrlab", {}).get("code") == digest(before):
        for cell, old in zip(after.cells, before.cells, strict=True):
            if cell.cell_type == "code" and is_live(path, cell):
                cell.outputs = old.outputs
    text = nbformat.writes(after) + "\n"
    if text == path.read_text(encoding="utf-8"):
        return False
    path.write_text(text, encoding="utf-8")
    return True


def main(names: list[str]) -> None:
    """Render the notebooks with these names, or all notebooks."""
    paths = sorted(FOLDER.glob("*.ipynb"))
    chosen = [path for path in paths if not names or path.stem in names]
    if unknown := set(names) - {path.stem for path in chosen}:
        raise SystemExit(f"no notebook {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in paths)}")
    with ThreadPoolExecutor(_JOBS) as pool:
        for path, changed in zip(chosen, pool.map(render, chosen), strict=True):
            print(f"{path.stem}: {'written' if changed else 'unchanged'}")  # noqa: T201 - a program


if __name__ == "__main__":
    main(sys.argv[1:])
