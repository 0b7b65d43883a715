"""The two forms of the hot modules: Python, or the same source compiled by Cython (docs/compiled.md).

A compiled module lies beside its source, and Python prefers it. The Python form is used if nothing is compiled, if
``MSGRLAB_PURE=1`` is set, or if a source has changed since it was compiled; always for all modules or for none.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from messenger.compat import override

HOT_MODULES = (
    "messenger.batch",
    "messenger.messages.message",
    "messenger.pool",
    "messenger.receive",
    "messenger.session.queue",
    "messenger.v2.data",
    "messenger.v2.framing",
    "messenger.v2.onwire",
)
"""The modules that use less CPU when they are compiled."""
SUFFIX = EXTENSION_SUFFIXES[0]
"""File name suffix of compiled modules for this interpreter."""
PURE = "MSGRLAB_PURE"
"""Environment variable that selects the Python form."""

_HOME = Path(__file__).parent
RECORD = _HOME / f"compiled{SUFFIX}.json"
"""File that ``make compile`` writes beside the package: :func:`source_digest` of each compiled module."""


def source_path(module: str) -> Path:
    """Path of the Python source of a module of this package."""
    return _HOME.joinpath(*module.split(".")[1:]).with_suffix(".py")


def compiled_path(module: str) -> Path:
    """Path of the compiled form of a module, whether or not it exists."""
    return source_path(module).with_suffix(SUFFIX)


def source_digest(module: str) -> str:
    """SHA-256 of what a module is compiled from: its source and all ``.pxd`` files, which name each other."""
    from hashlib import sha256  # noqa: PLC0415 - not needed if nothing is compiled

    sources = [source_path(module), *(source_path(name).with_suffix(".pxd") for name in HOT_MODULES)]
    return sha256(b"".join(path.read_bytes() for path in sources if path.exists())).hexdigest()


def changed_modules() -> list[str]:
    """Names of the modules whose source has changed since it was compiled; none in an installed package."""
    import json  # noqa: PLC0415 - not needed if nothing is compiled

    try:
        record = json.loads(RECORD.read_text("utf-8"))
        return [name for name in HOT_MODULES if record.get(name) != source_digest(name)]
    except FileNotFoundError:
        return []


def reason_for_python() -> str | None:
    """Why the Python form is used; None if the compiled one is."""
    if not all(compiled_path(name).exists() for name in HOT_MODULES):
        return "nothing is compiled"
    if os.environ.get(PURE, "0") not in {"", "0"}:
        return f"{PURE} is set"
    changed = changed_modules()
    return f"changed since they were compiled: {', '.join(changed)}" if changed else None


class _PythonForm(MetaPathFinder):
    """Import hook that finds the sources of the hot modules even if compiled forms lie beside them."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in HOT_MODULES:
            return None
        folder = str(source_path(fullname).parent)
        return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)


def choose() -> None:
    """Install the import hook if the Python form must be used; called by the package's ``__init__``."""
    if reason_for_python() is not None and any(compiled_path(name).exists() for name in HOT_MODULES):
        sys.meta_path.insert(0, _PythonForm())


@cache  # modules that are loaded do not change
def form() -> str:
    """The form in use: ``compiled`` or ``Python``."""
    spec = find_spec(HOT_MODULES[0])
    compiled = spec is not None and spec.origin is not None and spec.origin.endswith(SUFFIX)
    return "compiled" if compiled else "Python"
