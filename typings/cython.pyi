# What annotations for Cython mean in Python: the type checks do without Cython (docs/compiled.md).

from builtins import int as _int
from typing import TypeAlias

Py_ssize_t: TypeAlias = _int
int: TypeAlias = _int  # noqa: A001, PYI042 - as Cython calls it
uint: TypeAlias = _int  # noqa: PYI042
bint: TypeAlias = bool  # noqa: PYI042
ulonglong: TypeAlias = _int  # noqa: PYI042
