"""One request while it is carried out, and the table of what its operations do (docs/protocol.md §6.4.1)."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from messenger.denc.entity import EntityName
from messenger.messages.osd_op import MOSDOp
from messenger.messages.osd_operations import OpCode, OsdOp
from messenger.messages.pg import PgId
from toolkit.embedded.osd.store import OBJECT_BYTES, ObjectKey, PlacementGroup, StoredObject

if TYPE_CHECKING:
    from messenger.driver import Connection
    from toolkit.embedded.osd.watches import Watches


class OpError(Exception):
    """An operation fails. ``errno`` is the positive number that the reply carries, negated."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode.get(number, str(number)))
        self.errno = number


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request."""

    name: EntityName
    """Its number is the global id."""
    connection: "Connection"


@dataclass(slots=True, eq=False)
class Work:
    """A request under way. What it changes is a draft until all its operations are done."""

    request: MOSDOp
    client: Client
    pgid: PgId
    pg_num: int
    """Placement groups of the pool."""
    group: PlacementGroup
    watches: "Watches"
    draft: StoredObject | None
    """The object as the operations so far have left it; None: there is none."""
    changed: bool = False
    """A draft is to be kept, or an object to be removed."""
    afterwards: list[Callable[[], None]] = field(default_factory=list)
    """What is done once all operations have succeeded."""
    return_value: int = 0
    """Of the present operation, if it succeeds."""

    @property
    def key(self) -> ObjectKey:
        """Which object."""
        return ObjectKey(self.request.locator.nspace, self.request.locator.key, self.request.oid)

    @property
    def user_version(self) -> int:
        """Of the object before this request."""
        return self.draft.user_version if self.draft is not None else 0

    def existing(self) -> StoredObject:
        """The object; raises OpError, ENOENT where there is none."""
        if self.draft is None:
            raise OpError(errno.ENOENT)
        return self.draft

    def change(self, **changes: Any) -> None:  # noqa: ANN401 - fields of an object
        """Change the object, which is made if there is none.

        Raises:
            OpError: EFBIG, its data would be too long.
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
"""Does an operation with its decoded input; returns its output. Raises OpError."""

HANDLERS: dict[int, Handler] = {}
"""By operation code."""


def handles(code: OpCode) -> Callable[[Handler], Handler]:
    """Register a function as what an operation does."""

    def register(handler: Handler) -> Handler:
        HANDLERS[code] = handler
        return handler

    return register
