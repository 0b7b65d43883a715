"""Modules of the messenger that are imported from other source than their files have: no file changes."""

import ast
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

Source = str | ast.Module


class _Loader(SourceFileLoader):
    """Compiles other source; bytecode that is cached is neither used nor written."""

    def __init__(self, module: str, path: str, source: Source) -> None:
        super().__init__(module, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType | None:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._sources[fullname])
        spec.cached = None
        return spec


def replace_sources(sources: Mapping[str, Source]) -> None:
    """Have this process import these modules, by name, from these sources from now on.

    Raises:
        RuntimeError: one of them was imported already.
    """
    early = sorted(sources.keys() & sys.modules.keys())
    if early:
        raise RuntimeError(f"{', '.join(early)} imported before the source was replaced")
    sys.meta_path.insert(0, _Finder(sources))
