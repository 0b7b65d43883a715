"""A canary: a deliberate bug, one line of the messenger replaced while a ``with`` block runs."""

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType


@dataclass(frozen=True, slots=True)
class Canary:
    """A bug that the simulator must find.

    Its line is looked up in the source as it is: where it is gone, the canary fails and needs another one.
    """

    name: str
    where: str
    """MODULE:FUNCTION or MODULE:CLASS.METHOD."""
    right: str
    """What stands there, once."""
    wrong: str
    """What stands there instead."""

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Have the bug."""
        function = self._function()
        sound = function.__code__
        function.__code__ = self._mutated(function)
        try:
            yield
        finally:
            function.__code__ = sound

    def _function(self) -> FunctionType:
        module, _, path = self.where.partition(":")
        found: object = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        if isinstance(found, property):
            found = found.fget
        assert isinstance(found, FunctionType), f"{self.where} is no function"
        return found

    def _mutated(self, function: FunctionType):
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.right) == 1, f"canary {self.name}: {self.where} has no {self.right!r}"
        source = source[source.index("def ") :].replace(self.right, self.wrong)
        namespace = dict(function.__globals__)
        exec(
            compile(f"from __future__ import annotations\n{source}", function.__code__.co_filename, "exec"),
            namespace,
        )
        return namespace[function.__name__].__code__
