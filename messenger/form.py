"""The two forms of the hot modules: Python, or the same source compiled by Cython (docs/compiled.md).

A compiled module lies beside its source, where Python prefers it. The Python form runs where nothing is compiled,
where ``MSGRLAB_PURE=1`` is set, and where a source has changed since: one form for all of them, never a mixture.
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
"""Those that cost less CPU compiled than in Python."""
SUFFIX = EXTENSION_SUFFIXES[0]
"""What the file name of a compiled module ends with, for this interpreter."""
PURE = "MSGRLAB_PURE"
"""The environment variable that keeps the Python form."""

_HOME = Path(__file__).parent
RECORD = _HOME / f"compiled{SUFFIX}.json"
"""What ``make compile`` writes beside the package: :func:`source_digest` of each module that it compiled."""


def source_path(module: str) -> Path:
    """The Python source of one of this package's modules."""
    return _HOME.joinpath(*module.split(".")[1:]).with_suffix(".py")


def compiled_path(module: str) -> Path:
    """Where the compiled form of it lies, if there is one."""
    return source_path(module).with_suffix(SUFFIX)


def source_digest(module: str) -> str:
    """Of all that a module is compiled from: its source and all declarations, which name each other."""
    from hashlib import sha256  # noqa: PLC0415 - where nothing is compiled, nobody pays for it

    sources = [source_path(module), *(source_path(name).with_suffix(".pxd") for name in HOT_MODULES)]
    return sha256(b"".join(path.read_bytes() for path in sources if path.exists())).hexdigest()


def changed_modules() -> list[str]:
    """Modules whose source is not that of their compiled form; an installed package has no record of it."""
    import json  # noqa: PLC0415 - where nothing is compiled, nobody pays for it

    try:
        record = json.loads(RECORD.read_text("utf-8"))
        return [name for name in HOT_MODULES if record.get(name) != source_digest(name)]
    except FileNotFoundError:
        return []


def reason_for_python() -> str | None:
    """Why the Python form runs, in a few words; None if the compiled one does."""
    if not all(compiled_path(name).exists() for name in HOT_MODULES):
        return "nothing is compiled"
    if os.environ.get(PURE, "0") not in {"", "0"}:
        return f"{PURE} is set"
    changed = changed_modules()
    return f"changed since they were compiled: {', '.join(changed)}" if changed else None


class _PythonForm(MetaPathFinder):
    """Finds the sources of the hot modules, whatever lies beside them."""

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in HOT_MODULES:
            return None
        folder = str(source_path(fullname).parent)
        return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)


def choose() -> None:
    """Have the right form found when a hot module is imported; for the package's ``__init__``."""
    if reason_for_python() is not None and any(compiled_path(name).exists() for name in HOT_MODULES):
        sys.meta_path.insert(0, _PythonForm())


@cache  # what was loaded stays, whatever is compiled meanwhile
def form() -> str:
    """The form that runs here: ``compiled`` or ``Python``."""
    spec = find_spec(HOT_MODULES[0])
    compiled = spec is not None and spec.origin is not None and spec.origin.endswith(SUFFIX)
    return "compiled" if compiled else "Python"
