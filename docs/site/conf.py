"""Sphinx configuration of `make docs`: the pages, the notebooks with their kept outputs, and the Python API.

The source directory is the repository itself, so that links between pages work on the site as in a checkout.
"""

import subprocess
import sys
from html import unescape
from importlib.metadata import version as installed
from pathlib import Path
from re import DOTALL, MULTILINE, sub

from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

project = "msgrlab"
author = "the msgrlab developers"
version = release = installed("msgrlab")
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
root_doc = "docs/site/index"
include_patterns = ["README.md", "C*.md", "docs/*.md", "docs/site/*.md", "*/README.md", "notebooks/*.ipynb"]
exclude_patterns = [".*", "build", "dist", "msgrlab-out", "node_modules"]

html_theme = "furo"
html_title = f"msgrlab {release}"
html_copy_source = False
html_theme_options = {"source_repository": "https://github.com/msgrlab/msgrlab/", "source_branch": "main"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 5  # as GitHub makes them: citations lead to sections
nb_execution_mode = "off"  # outputs are kept in the notebooks, and the tests compare them
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
copybutton_exclude = ".linenos, .gp, .go"
suppress_warnings = [
    "myst.header",  # lessons begin below a title
    "mystnb.mime_priority",  # widgets show their HTML
]


def _commands() -> str:
    """The page of the command line, as typer writes it, without what is hidden from help."""
    words = [
        "-m",
        "typer",
        "toolkit.cli.main",
        "utils",
        "docs",
        "--name",
        "msgrlab",
        "--title",
        "The command line",
    ]
    text = subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    text = sub(r"^\* `node`.*\n", "", unescape(text), flags=MULTILINE)
    text = sub(r"## `msgrlab node`.*?(?=^## )", "", text, flags=DOTALL | MULTILINE)
    return text.replace("* `--help`: Show this message and exit.\n", "")


def _front(app: Sphinx, error: Exception | None) -> None:
    """The site opens at its root: root_doc is the path of a page, and lies deeper."""
    if error is None:
        page = f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">msgrlab</a>'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Write the page of the command line before pages are read."""
    (HERE / "commands.md").write_text(_commands(), encoding="utf-8")
    app.connect("build-finished", _front)
