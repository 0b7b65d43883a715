"""Bytecode of msgrlab's modules for guests, compiled on the host.

Where the processor is emulated, the guest compiles a module ten to twenty times slower than the host, and it loses
the result. So the host compiles what has no bytecode yet, into a directory of the user's cache that the guest's
overlay shows as ``__pycache__`` beside the sources. The sources' own directories are not changed.
"""

import hashlib
import importlib.util
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

from messenger.errors import LocalError
from toolkit.machine.cache import default_root
from toolkit.machine.interpreters import PACKAGES
from toolkit.machine.private import check_own, locked

_SOURCES = ("messenger", "toolkit", "tests")
"""Directories of sources; a checkout has all of them."""
_MAGIC = importlib.util.MAGIC_NUMBER
_HEADER_BYTES = 16
_U32_MASK = (1 << 32) - 1


def layer(packages: Path = PACKAGES, root: Path | None = None) -> Path | None:
    """Compile what is missing or outdated, and return the directory that belongs above the host's files.

    Args:
        packages: directory that contains msgrlab's packages.
        root: directory of images; the layer is beside them.

    Returns:
        A directory with the bytecode at the paths of the host; None if this user's cache cannot have it. The
        guest then compiles modules itself.
    """
    name = hashlib.sha256(str(packages).encode()).hexdigest()[:16]
    directory = (root or default_root()).parent / "bytecode" / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        check_own(directory, "bytecode")
        with locked(directory.with_suffix(".lock")):
            _prune(directory, _compile_all(packages, directory))
    except (OSError, LocalError):
        return None
    return directory


def _compile_all(packages: Path, directory: Path) -> set[Path]:
    """Compile the modules that have no bytecode beside their source; returns the files that the layer needs.

    Valid bytecode stays although there is some beside the source now: a guest that runs sees the layer, too.
    """
    wanted = set()
    for source in _sources(packages):
        beside = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        expected = _header(source)
        compiled = directory / beside.relative_to("/")
        is_valid = _begins(compiled, expected)
        if is_valid or not _begins(beside, expected):
            wanted.add(compiled)
            if not is_valid:
                _compile(source, compiled)
    return wanted


def _sources(packages: Path) -> Iterator[Path]:
    for name in _SOURCES:
        yield from (packages / name).rglob("*.py")


def _header(source: Path) -> bytes:
    """Return the first bytes of up-to-date bytecode, as PEP 552 describes them."""
    about = source.stat()
    numbers = (0, int(about.st_mtime) & _U32_MASK, about.st_size & _U32_MASK)
    return _MAGIC + b"".join(number.to_bytes(4, "little") for number in numbers)


def _begins(path: Path, header: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES) == header
    except (FileNotFoundError, NotADirectoryError):
        return False


def _compile(source: Path, compiled: Path) -> None:
    """Compile a module; one that is invalid is left out, so that its error appears where it is imported."""
    py_compile.compile(
        str(source), str(compiled), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP, quiet=2
    )


def _prune(directory: Path, wanted: set[Path]) -> None:
    """Remove the bytecode of modules that are gone, and the directories that it leaves empty.

    In the guest such a directory would be a namespace package.
    """
    for path in sorted(directory.rglob("*"), reverse=True):  # contents before their directory
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in wanted:
            path.unlink(missing_ok=True)
