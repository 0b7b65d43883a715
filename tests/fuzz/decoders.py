"""Finds every public decoder of a package, so that none is forgotten."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import messenger

DECODER_NAME = re.compile(
    r"(decode|parse|open|unseal|unwrap|decrypt|from)(_.*)?|next_frame|cut(_small)?|printable_.*"
)
"""What is called like this, and is public, turns bytes or text of others into values."""


def modules(package: ModuleType) -> list[ModuleType]:
    """A package and everything below it."""
    below = walk_packages(package.__path__, package.__name__ + ".")
    return [package, *(import_module(info.name) for info in below)]


def public_classes(module: ModuleType) -> Iterator[type]:
    """The public classes that a module defines."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


def public_decoders(package: ModuleType) -> dict[str, Callable[..., object]]:
    """Every public function and method named as a decoder, as ``module:Class.method``.

    A class that inherits its decoder counts for itself if it is a dataclass, since the fields are its own.
    """
    found: dict[str, Callable[..., object]] = {}
    for module in modules(package):
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and DECODER_NAME.fullmatch(name):
                found[f"{module.__name__}:{name}"] = value
        for cls in public_classes(module):
            for name in {name for base in cls.__mro__ for name in vars(base)}:
                if DECODER_NAME.fullmatch(name) and (name in vars(cls) or is_dataclass(cls)):
                    method = getattr(cls, name)
                    if _is_written(method) and not _is_interface(cls):
                        found[f"{module.__name__}:{cls.__qualname__}.{name}"] = method
    return found


def _is_written(method: object) -> bool:
    """It is code, not a field of that name."""
    return inspect.isfunction(method) or inspect.ismethod(method)


def _needs_bytes_alone(decode: Callable[..., object]) -> bool:
    _, *more = inspect.signature(decode).parameters.values()
    return all(parameter.default is not parameter.empty for parameter in more)


def _is_interface(cls: type) -> bool:
    return getattr(cls, "_is_protocol", False) or inspect.isabstract(cls)


def structures(package: str) -> dict[str, type]:
    """The dataclasses of a sub-package that decode from nothing but bytes, by name."""
    found: dict[str, type] = {}
    for module in modules(import_module(f"{messenger.__name__}.{package}")):
        if module.__name__.endswith(".layout"):  # bases only
            continue
        for cls in public_classes(module):
            decode = getattr(cls, "decode", None)
            if is_dataclass(cls) and _is_written(decode) and _needs_bytes_alone(decode):
                assert found.setdefault(cls.__name__, cls) is cls, f"two structures are called {cls.__name__}"
    return found


def packages() -> list[str]:
    """The sub-packages of the messenger that have structures."""
    names = [module.__name__.partition(".")[2] for module in modules(messenger) if hasattr(module, "__path__")]
    return [name for name in names if name and "." not in name and structures(name)]
