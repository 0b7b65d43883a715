"""A request in progress, and the table of operations (docs/protocol.md §6.4.1)."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from messenger.denc.entity import EntityName
from messenger.messages.osd_objects import ObjectLocator
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.pg import PgId
from toolkit.embedded.osd.store import OBJECT_BYTES, ObjectKey, PlacementGroup, StoredObject

if TYPE_CHECKING:
    from messenger.driver import Connection
    from toolkit.embedded.osd.watches import Watches


class OpError(Exception):
    """An operation fails. ``errno`` is a positive Linux error number; the reply carries it negated."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode.get(number, str(number)))
        self.errno = number


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request."""

    name: EntityName
    """The number in the name is the client's global id."""
    connection: "Connection"


class Source(NamedTuple):
    """An object, or its state in a snapshot, that a request copies."""

    locator: ObjectLocator
    oid: str
    snapid: int


@dataclass(slots=True, eq=False)
class Work:
    """A request in progress. Its changes are a draft until all operations have succeeded."""

    request: MOSDOp
    client: Client
    pgid: PgId
    pg_num: int
    """Placement groups of the pool."""
    group: PlacementGroup
    watches: "Watches"
    draft: StoredObject | None
    """The object after the operations so far; None if it does not exist."""
    sources: Mapping[Source, StoredObject | int] = field(default_factory=dict)
    """States of the objects that the request copies, or the error numbers with which reading them failed."""
    changed: bool = False
    """True if the draft replaces or removes the stored object."""
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """Functions to call once all operations have succeeded."""
    return_value: int = 0
    """Return value of the current operation, if it succeeds."""

    @property
    def key(self) -> ObjectKey:
        """Key of the object."""
        return ObjectKey(self.request.locator.nspace, self.request.locator.key, self.request.oid)

    @property
    def user_version(self) -> int:
        """Version of the object before this request."""
        return self.draft.user_version if self.draft is not None else 0

    def existing(self) -> StoredObject:
        """Return the object; raises OpError, ENOENT if it does not exist."""
        if self.draft is None:
            raise OpError(errno.ENOENT)
        return self.draft

    def change(self, **changes: Any) -> None:  # noqa: ANN401 - fields of an object
        """Change the object; creates it if it does not exist.

        Raises:
            OpError: EFBIG: its data would be too long.
        """
        if len(changes.get("data", b"")) > OBJECT_BYTES:
            raise OpError(errno.EFBIG)
        self.draft = replace(self.draft or StoredObject(), **changes)
        self.changed = True

    def remove(self) -> None:
        """Remove the object."""
        self.draft = None
        self.changed = True


Handler = Callable[[Work, OsdOp, dict[str, Any]], bytes | None]
"""Runs an operation with its decoded input; returns its output. Raises OpError."""

HANDLERS: dict[int, Handler] = {}
"""Handlers by operation code."""


def handles(code: OpCode) -> Callable[[Handler], Handler]:
    """Register a function as the handler of an operation."""

    def register(handler: Handler) -> Handler:
        HANDLERS[code] = handler
        return handler

    return register
