"""Commands to daemons: ``ceph tell`` (docs/protocol.md §6.3)."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from messenger.denc.layout import I32
from messenger.messages.layout import Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MCommand(Fields):
    """A command for the daemon at the other end; its input travels in the data segment."""

    TYPE: ClassVar = MessageType.COMMAND
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    """The cluster's. To a manager before Octopus a blank one marks a command of the ``ceph`` tool."""
    cmd: list[str]
    """One element, a JSON object with the ``prefix`` of the command and its arguments."""


@dataclass(slots=True)
class MCommandReply(Fields):
    """How it went; its output travels in the data segment."""

    TYPE: ClassVar = MessageType.COMMAND_REPLY
    COMPAT_VERSION: ClassVar = 1

    r: I32
    """0, or a negative Linux error number."""
    rs: str = ""
    """Status text."""


@dataclass(slots=True)
class MMgrCommand(MCommand):
    """The same for what managers of Octopus and newer do for the ``ceph`` tool; the fsid is blank then."""

    TYPE: ClassVar = MessageType.MGR_COMMAND


@dataclass(slots=True)
class MMgrCommandReply(MCommandReply):
    """How that went."""

    TYPE: ClassVar = MessageType.MGR_COMMAND_REPLY
