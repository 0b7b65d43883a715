"""Build hook of hatchling: with MSGRLAB_COMPILE=1 a wheel has the hot modules compiled as well.

Such a wheel is for one version of Python and one platform; without the variable the wheel is pure Python, for all.
docs/compiled.md describes both.
"""  # noqa: INP001 - no package

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED = "MSGRLAB_COMPILE"
COMPILE_NEEDS = ["cython>=3.1", "lazy-loader>=0.4"]
"""Cython, and what ``import messenger`` takes: it knows its hot modules."""


def is_asked() -> bool:
    """True if the environment asks for a compiled wheel."""
    return os.environ.get(ASKED, "0") not in {"", "0"}


class CompiledWheel(BuildHookInterface):
    """Compiles the hot modules outside of the source tree, and adds them to the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what an isolated build needs besides hatchling."""
        return COMPILE_NEEDS if is_asked() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the modules; an editable installation uses `make compile` instead."""
        if version == "editable" or not is_asked():
            return
        self._directory = TemporaryDirectory(prefix="msgrlab-wheel-")
        made = Path(self._directory.name)
        subprocess.run([sys.executable, Path(self.root, ".ci/compile"), "--to", made], check=True)  # noqa: S603 - ours
        modules = {str(path): str(path.relative_to(made)) for path in made.rglob("*.so")}
        build_data["force_include"].update(modules)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - the hook's
        """Remove the compiled modules, which are in the wheel now."""
        if hasattr(self, "_directory"):
            self._directory.cleanup()
