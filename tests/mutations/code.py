"""Digests of what source does: comments, docstrings and layout do not count."""

import ast
from collections.abc import Iterable
from hashlib import sha256
from textwrap import dedent


def digest_of(sources: Iterable[str]) -> str:
    """Return eight hexadecimal digits for the code in ``sources``; text that is not Python counts byte by byte."""
    total = sha256()
    for source in sources:
        total.update(_without_words(source).encode())
    return total.hexdigest()[:8]


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
