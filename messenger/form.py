"""The two forms of the hot modules: Python, or the same source compiled by Cython (docs/compiled.md).

A compiled module lies beside its source, and Python prefers it. The Python form is used if nothing is compiled, if
``MSGRLAB_PURE=1`` is set, or if a source has changed since it was compiled; always for all modules of a package or
for none.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

SUFFIX = EXTENSION_SUFFIXES[0]
"""File name suffix of compiled modules for this interpreter."""
PURE = "MSGRLAB_PURE"
"""Environment variable that selects the Python form."""


class HotModules:
    """The modules of one package that use less CPU when they are compiled.

    Args:
        home: folder of the package.
        names: dotted names of the modules.
        base: the hot modules of a package below, whose declarations these may use; these run compiled only if
            those do.
    """

    def __init__(self, home: Path, names: tuple[str, ...], base: "HotModules | None" = None) -> None:
        self.home = home
        self.names = names
        self.base = base
        self.form = "Python"
        """The form in use: ``compiled`` or ``Python``."""

    @property
    def record(self) -> Path:
        """File that ``make compile`` writes into the package: :meth:`source_digest` of each compiled module."""
        return self.home / f"compiled{SUFFIX}.json"

    def source_path(self, module: str) -> Path:
        """Path of the Python source of a module of the package."""
        return self.home.joinpath(*module.split(".")[1:]).with_suffix(".py")

    def compiled_path(self, module: str) -> Path:
        """Path of the compiled form of a module, whether or not it exists."""
        return self.source_path(module).with_suffix(SUFFIX)

    def declarations(self) -> list[Path]:
        """Paths of the ``.pxd`` files that the modules may use, in a fixed order."""
        paths = [self.source_path(name).with_suffix(".pxd") for name in self.names]
        return [*(self.base.declarations() if self.base else ()), *filter(Path.exists, paths)]

    def source_digest(self, module: str) -> str:
        """SHA-256 of what a module is compiled from: its source and all ``.pxd`` files, which name each other."""
        from hashlib import sha256  # noqa: PLC0415 - not needed if nothing is compiled

        sources = [self.source_path(module), *self.declarations()]
        return sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()

    def changed(self) -> list[str]:
        """Names of the modules whose source has changed since it was compiled; none in an installed package."""
        import json  # noqa: PLC0415 - not needed if nothing is compiled

        try:
            record = json.loads(self.record.read_text("utf-8"))
            return [name for name in self.names if record.get(name) != self.source_digest(name)]
        except FileNotFoundError:
            return []

    def reason_for_python(self) -> str | None:
        """Why the Python form is used; None if the compiled one is."""
        if not all(self.compiled_path(name).exists() for name in self.names):
            return "nothing is compiled"
        if os.environ.get(PURE, "0") not in {"", "0"}:
            return f"{PURE} is set"
        if changed := self.changed():
            return f"changed since they were compiled: {', '.join(changed)}"
        return self.base.reason_for_python() if self.base else None

    def choose(self) -> None:
        """Choose the form, before any of the modules is imported; called by the package's ``__init__``."""
        if self.reason_for_python() is None:
            self.form = "compiled"
        elif any(self.compiled_path(name).exists() for name in self.names):
            sys.meta_path.insert(0, _PythonForm(self))


class _PythonForm:
    """Import hook that finds the sources of the hot modules even if compiled forms lie beside them."""

    def __init__(self, modules: HotModules) -> None:
        self._modules = modules

    def find_spec(
        self,
        fullname: str,
        _path: Sequence[str] | None,
        target: ModuleType | None = None,
        /,
    ) -> ModuleSpec | None:
        if fullname not in self._modules.names:
            return None
        folder = str(self._modules.source_path(fullname).parent)
        return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname, target)


MESSENGER = HotModules(
    Path(__file__).parent,
    (
        "messenger.batch",
        "messenger.messages.message",
        "messenger.pool",
        "messenger.receive",
        "messenger.session.queue",
        "messenger.v2.data",
        "messenger.v2.framing",
        "messenger.v2.onwire",
    ),
)
"""The hot modules of the messenger."""
