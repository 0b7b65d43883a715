"""The build of the running Python: without profile-guided optimisation it needs about 1.5 times the CPU time."""

import sys
import sysconfig
from dataclasses import asdict, dataclass
from platform import python_implementation, python_version
from typing import Any, Self

_PROFILE_GUIDED = "--enable-optimizations"
_LINK_TIME = "--with-lto"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The implementation, version and build of a Python."""

    name: str
    """Implementation and version, as in ``CPython 3.11.2``."""
    build: str
    """Optimisation of the build, in a few words; empty if unknown."""
    is_optimised: bool
    """False for a build without optimisation, whose figures do not represent Python."""

    @classmethod
    def this(cls) -> Self:
        """Return the interpreter that runs this process."""
        name = f"{python_implementation()} {python_version()}"
        options = sysconfig.get_config_var("CONFIG_ARGS") or ""
        if sysconfig.get_config_var("Py_DEBUG"):
            return cls(name, "a debug build", is_optimised=False)
        if _PROFILE_GUIDED in options:
            both = " and link-time" if _LINK_TIME in options else ""
            return cls(name, f"profile-guided{both} optimisation", is_optimised=True)
        if _is_debian():
            return cls(name, "Debian's build, with profile-guided optimisation", is_optimised=True)
        if python_implementation() != "CPython":
            return cls(name, "", is_optimised=True)
        return cls(name, "no profile-guided optimisation", is_optimised=False)

    @property
    def caption(self) -> str:
        """Name and build, to be printed below a table."""
        return f"{self.name}, {self.build}" if self.build else self.name

    @property
    def warning(self) -> str:
        """One line about a build that is not optimised; empty if it is."""
        if self.is_optimised:
            return ""
        return (
            f"{self.name}: {self.build}; one built with {_PROFILE_GUIDED} needs about two thirds of the CPU time"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)


def _is_debian() -> bool:
    """True for Debian's build, which is profile-guided although its configure options do not name it."""
    return sys.base_prefix == "/usr" and "deb_system" in sysconfig.get_scheme_names()
