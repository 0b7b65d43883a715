"""Commands to daemons, as sent by ``ceph tell`` (docs/protocol.md §6.3)."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from messenger.denc.layout import I32
from messenger.messages.layout import Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MCommand(Fields):
    """A command for the receiving daemon; the input of the command is in the data segment."""

    TYPE: ClassVar = MessageType.COMMAND
    COMPAT_VERSION: ClassVar = 1

    fsid: UUID
    """The cluster's fsid. For managers before Octopus, a blank one marks a command of the ``ceph`` tool."""
    cmd: list[str]
    """One element, a JSON object with the ``prefix`` of the command and its arguments."""


@dataclass(slots=True)
class MCommandReply(Fields):
    """Result of an MCommand; the output of the command is in the data segment."""

    TYPE: ClassVar = MessageType.COMMAND_REPLY
    COMPAT_VERSION: ClassVar = 1

    r: I32
    """0, or a negative Linux error number."""
    rs: str = ""
    """Status text."""


@dataclass(slots=True)
class MMgrCommand(MCommand):
    """A command of the ``ceph`` tool for a manager from Octopus on; its fsid is blank."""

    TYPE: ClassVar = MessageType.MGR_COMMAND


@dataclass(slots=True)
class MMgrCommandReply(MCommandReply):
    """Result of an MMgrCommand."""

    TYPE: ClassVar = MessageType.MGR_COMMAND_REPLY
