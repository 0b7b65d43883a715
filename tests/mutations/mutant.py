"""A mutant: one line of the messenger that is deliberately wrong, while a process runs.

A mutant names its place by module, function and the code that stands there, so it survives edits around it. It is
applied to the source as a module is imported: no file changes.
"""

import ast
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutations.code import ROOT
from tests.mutations.importing import replace_sources

TOP = "messenger."


class NotApplicable(Exception):
    """The code that the mutant changes does not exist any more; the text names it in one line."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate mistake."""

    area: str
    """Which part of the messenger it is in: the name of the file that lists it."""
    where: str
    """MODULE:FUNCTION or MODULE:CLASS.METHOD without the package; MODULE: for code outside functions."""
    before: str
    """The code that it changes: part of one line, unique in the function."""
    after: str
    """What stands there instead."""
    equivalent: str = ""
    """Why it is equivalent to the original; empty for a mutant that must be killed."""
    survives: str = ""
    """Why no test kills it although it is not equivalent; empty for a mutant that must be killed."""

    @property
    def id(self) -> str:
        """Stable as long as place and code are: FUNCTION-HASH."""
        digest = sha256(f"{self.where}|{self.before}|{self.after}".encode()).hexdigest()
        return f"{self.where.rstrip(':').replace(':', '.')}-{digest[:4]}"

    @property
    def module(self) -> str:
        """The module that it changes, as Python imports it."""
        return TOP + self.where.partition(":")[0]

    @property
    def function(self) -> str:
        """FUNCTION or CLASS.METHOD; empty for code outside functions."""
        return self.where.partition(":")[2]

    @property
    def path(self) -> Path:
        """The source file."""
        return ROOT / (self.module.replace(".", "/") + ".py")

    def source(self) -> str:
        """The source of the function that it changes, or of the whole module.

        Raises:
            NotApplicable: there is no such module or function.
        """
        start, end, text = self._place()
        return text[start:end]

    def mutated(self) -> str:
        """The source of the module with the mistake.

        Raises:
            NotApplicable: the code is not there, or more than once.
        """
        start, end, text = self._place()
        count = text.count(self.before, start, end)
        if count != 1:
            raise NotApplicable(f"{self.id}: {self.where} has {self.before!r} {count} times, 1 is needed")
        at = text.index(self.before, start, end)
        return text[:at] + self.after + text[at + len(self.before) :]

    @property
    def is_called(self) -> bool:
        """True if calls run its code, not the import of the module."""
        name = self.function.rpartition(".")[2]
        return bool(name) and not name.lstrip("_")[:1].isupper()

    def statement_lines(self) -> frozenset[int]:
        """The numbers of the lines of the statement that it changes; of one with a body, of its head.

        Raises:
            NotApplicable: see :meth:`mutated`.
        """
        self.mutated()
        start, end, text = self._place()
        line = text.count("\n", 0, text.index(self.before, start, end)) + 1
        heads = [_head(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
        return frozenset(min((head for head in heads if line in head), key=len))

    def _place(self) -> tuple[int, int, str]:
        """Return the begin and the end of the function in the text of its module."""
        if not self.path.is_file():
            raise NotApplicable(f"{self.id}: there is no module {self.module}")
        text = self.path.read_text(encoding="utf-8")
        if not self.function:
            return 0, len(text), text
        node = find_function(ast.parse(text), self.function.split("."))
        if node is None:
            raise NotApplicable(f"{self.id}: {self.module} has no {self.function}")
        return *span(text, node), text

    def __str__(self) -> str:
        return f"{self.where} {self.before!r} -> {self.after!r}"


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def span(text: str, node: Definition) -> tuple[int, int]:
    """Return the begin, decorators included, and the end of a definition in the text of its module."""
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    start = len("".join(lines[: first - 1]))
    return start, start + len("".join(lines[first - 1 : node.end_lineno]))


def find_function(tree: ast.AST, path: Sequence[str]) -> Definition | None:
    """The definition at CLASS.METHOD or FUNCTION; None if there is none."""
    for name in path:
        found = [node for node in ast.iter_child_nodes(tree) if isinstance(node, Definition) and node.name == name]
        if not found:
            return None
        tree = found[-1]  # of overloads and properties, the last one counts
    assert isinstance(tree, Definition)
    return tree


def _head(node: ast.stmt) -> range:
    """The numbers of a statement's lines, without those of its body."""
    body: list[ast.stmt] = getattr(node, "body", [])
    behind = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
    return range(node.lineno, max(behind, node.lineno + 1))


def install(mutant: Mutant) -> None:
    """Have this process import the mutated module from now on.

    Raises:
        NotApplicable: see :meth:`Mutant.mutated`.
        RuntimeError: the module was imported already.
    """
    replace_sources({mutant.module: mutant.mutated()})


def patch(mutant: Mutant) -> bool:
    """Put a mutant into the function as it was imported; False if that cannot be done, and nothing is changed.

    It cannot if the mistake is not in the code of a function: in a default, a decorator, the body of a class.

    Raises:
        NotApplicable: see :meth:`Mutant.mutated`.
    """
    text = mutant.path.read_text(encoding="utf-8")
    before, after = (
        _codes(compile(source, str(mutant.path), "exec", dont_inherit=True)) for source in (text, mutant.mutated())
    )
    changed = [place for place, code in after.items() if before.get(place) != code and place[0] != "<module>"]
    inner = [place for place in changed if place[0] == mutant.function]
    functions = [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType)
        and found.__module__ == mutant.module
        and (found.__code__.co_qualname, found.__code__.co_firstlineno) in inner
    ]
    if len(inner) != 1 or not functions or before[inner[0]].co_freevars != after[inner[0]].co_freevars:
        return False
    for function in functions:
        function.__code__ = after[inner[0]]
    return True


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return all code objects in a code object, by qualified name and first line."""
    found = {(code.co_qualname, code.co_firstlineno): code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _codes(constant)
    return found
