"""The fields of a spec that all programs of a cluster share."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from messenger.denc.address import EntityAddr
from messenger.errors import LocalError


@dataclass(slots=True, kw_only=True)
class ProgramSpec:
    """Start parameters of a program, as JSON values."""

    WHAT: ClassVar[str] = "program"
    """Kind of the program, for error messages."""

    name: str
    """Name of the node."""
    routes: dict[str, str] = field(default_factory=dict)
    """HOST:PORT to dial, by the HOST:PORT of the peer that it replaces."""
    options: dict[str, Any] = field(default_factory=dict)
    """Config options that differ from their defaults."""
    incarnation: int = 1
    seed: int = 0
    start_s: float = 0.0
    """Monotonic time at which the run began."""

    def route(self, addr: EntityAddr) -> tuple[str, int]:
        """Return the host and port to dial for an address."""
        direct = f"{addr.host}:{addr.port}"
        host, _, port = self.routes.get(direct, direct).rpartition(":")
        return host, int(port)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec in a JSON object.

        Raises:
            LocalError: a field is missing or unknown.
        """
        try:
            return cls(**values)
        except TypeError as error:
            raise LocalError(f"{cls.WHAT} spec: {error}") from None
