"""Digests of what source does: comments, docstrings and layout do not count."""

import ast
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parent.parent.parent
_FOLLOWED = {"tests", "toolkit"}
"""Packages whose imports :func:`digest_with_imports` follows; surveys record the modules of the messenger."""


def digest_of(sources: Iterable[str]) -> str:
    """Return eight hexadecimal digits for the code in ``sources``; text that is not Python counts byte by byte."""
    total = sha256()
    for source in sources:
        total.update(_without_words(source).encode())
    return total.hexdigest()[:8]


@cache
def digest_of_file(path: Path) -> str:
    """Return the digest of a file; that of an empty text if there is no such file."""
    return digest_of([path.read_text(encoding="utf-8") if path.is_file() else ""])


@cache
def digest_with_imports(path: Path) -> str:
    """Return a digest of a module and of what it imports of the tests and the toolkit, directly or not."""
    return sha256("".join(digest_of_file(each) for each in sorted(imports_of(path))).encode()).hexdigest()[:8]


def imports_of(path: Path) -> set[Path]:
    """Return a module's file and those of what it imports of the tests and the toolkit, directly or not."""
    found, waiting = {path}, [path]
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of the tests and the toolkit that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = set()
    for name in names:
        place = ROOT.joinpath(*name.split("."))
        if place.relative_to(ROOT).parts[0] in _FOLLOWED:
            files |= {place.with_suffix(".py"), place / "__init__.py"}
    return frozenset(file for file in files if file.is_file())


def _without_words(source: str) -> str:
    try:
        tree = ast.parse(dedent(source))
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [each for each in body if not _is_words(each)]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_words(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
