"""Options of an OSD that runs: ``ceph tell osd.N config``, ``injectargs``. They are those of the messenger."""

import errno
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from messenger.config import OPTIONS, Config
from messenger.errors import LocalError
from toolkit.embedded.known_options import canonical, type_of

_KINDS = {bool: "bool", int: "int", float: "float"}
"""Types of the options that Ceph does not have, by their Python types."""


class OptionError(Exception):
    """An option cannot be shown or set. ``errno`` is the positive Linux error number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.errno = number


class OsdOptions:
    """The options of a messenger, as texts.

    Args:
        config: the options of a messenger.
        configure: changes them while it runs; raises LocalError.
    """

    def __init__(self, config: Config, configure: Callable[..., None]) -> None:
        self._config = config
        self._configure = configure

    def all(self) -> dict[str, str]:
        """Return all options, by name."""
        return {name: self.get(name) for name in sorted(OPTIONS)}

    def get(self, name: str) -> str:
        """Return the value of an option; raises OptionError."""
        value = getattr(self._config, _known(name))
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:.6f}" if isinstance(value, float) else str(value)

    def set(self, name: str, text: str) -> str:
        """Set an option; returns a line that says so. Raises OptionError."""
        name = _known(name)
        value: Any = getattr(self._config, name)
        try:
            kept = canonical(name, text, _KINDS.get(type(value), "str"))
            value = kept == "true" if isinstance(value, bool) else type(value)(kept)
            self._configure(**{name: value})
        except (ValueError, LocalError) as error:
            raise OptionError(errno.EINVAL, f"error setting '{name}' to '{text}': {error}") from None
        return f"{name} = '{self.get(name)}' "

    def inject(self, words: Sequence[str]) -> str:
        """Set the options of a command line, as ``--NAME VALUE --NAME=VALUE``; raises OptionError."""
        given = _split(words)
        wanted = dict[str, str]()
        while given:
            name, equals, text = given.pop(0).partition("=")
            if not name.startswith("--") or not (equals or given):
                raise OptionError(errno.EINVAL, f"failed to parse arguments: {name} is not --OPTION VALUE")
            wanted[_known(name.removeprefix("--").replace("-", "_"))] = text if equals else given.pop(0)
        return "".join(self.set(name, text) for name, text in wanted.items())


def _split(words: Sequence[str]) -> list[str]:
    """Return the parts of a command line, which may come as one text; raises OptionError."""
    if len(words) > 1:
        return list(words)
    try:
        return shlex.split(" ".join(words))
    except ValueError as error:
        raise OptionError(errno.EINVAL, f"failed to parse arguments: {error}") from None


def _known(name: str) -> str:
    """Return the name of an option of the messenger; raises OptionError."""
    if name in OPTIONS:
        return name
    if type_of(name) is None:
        raise OptionError(errno.ENOENT, f"there is no option '{name}'")
    raise OptionError(errno.EINVAL, f"embedded OSDs have no '{name}': their options are those of the messenger")
