"""Errors between a client and its cluster."""

import errno
import os

from messenger.errors import MsgrError


class RadosError(MsgrError):
    """The cluster rejected a request, or cannot be reached. ``errno`` is the positive Linux error number."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}: {errno.errorcode.get(number, number)} ({os.strerror(number)})")
        self.errno = number
