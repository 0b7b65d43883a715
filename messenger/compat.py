"""Backports of standard library features that Python 3.11 lacks."""

import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override
elif sys.version_info >= (3, 12):
    from typing import override
else:
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Mark a method that overrides one of a base class, where it is documented."""
        method.__override__ = True
        return method


__all__ = ["override"]
