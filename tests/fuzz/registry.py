"""All targets: every module in ``targets/`` lists its own in ``TARGETS``."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.fuzz.target import Target

_FOLDER = Path(__file__).parent / "targets"


def modules() -> list[ModuleType]:
    """The modules of targets, by name."""
    return [import_module(f"tests.fuzz.targets.{path.stem}") for path in sorted(_FOLDER.glob("[!_]*.py"))]


def all_targets() -> dict[str, Target]:
    """The targets by name."""
    found: dict[str, Target] = {}
    for module in modules():
        for target in module.TARGETS:
            assert target.name not in found, f"two targets are called {target.name}"
            found[target.name] = target
    return found
