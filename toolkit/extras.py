"""Packages that extras of msgrlab install (pyproject.toml), and the error that names a missing extra."""

from importlib import import_module
from typing import Self

from toolkit.errors import Unsupported

EXTRAS = {
    "docker": "clusters",
    "pyroute2": "clusters",
    "scapy": "scapy",
    "pandas": "tables",
    "pyarrow": "tables",
    "jupyterlab": "notebooks",
    "anywidget": "notebooks",
    "distributed": "dask",
}
"""The extra that installs each module."""


class MissingExtra(Unsupported, ImportError):
    """A package of an extra is not installed; the text has the command that installs it."""

    @classmethod
    def of(cls, module: str) -> Self:
        """Return the error for a missing module of :data:`EXTRAS`."""
        return cls(f"{module} is not installed: pip install 'msgrlab[{EXTRAS[module]}]'", name=module)


def require(module: str) -> None:
    """Check that a module of :data:`EXTRAS` can be imported.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        raise missing from None


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Make the error that names the extra; None if no extra installs the module that was not found."""
    module = (error.name or "").partition(".")[0]
    return MissingExtra.of(module) if module in EXTRAS else None
