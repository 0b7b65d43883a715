"""Calls between shards, as values numbered in their order (messenger/shards applies them in that order).

A *stint* is the time that a link spends on a shard. The calls of a stint are numbered from 1 in each direction.
They may arrive in any order and are applied in order of their numbers. The first call to a shard is
:class:`OpenIo`, the last one :class:`LeaveIo`; the last call back is :class:`LeftIo`.
"""

from dataclasses import dataclass

from messenger.errors import Fault
from messenger.link import Link
from messenger.messages.message import Message
from messenger.outputs import Deliver
from messenger.session.session import Session


@dataclass(slots=True)
class Traffic:
    """Numbers of calls made and applied in a stint. Each counter is written by one of the two shards only."""

    to_shard: int = 0
    applied_by_shard: int = 0
    to_home: int = 0
    applied_at_home: int = 0

    @property
    def travelling(self) -> int:
        """Number of calls that were made but not applied yet."""
        return self.to_shard - self.applied_by_shard + self.to_home - self.applied_at_home


@dataclass(slots=True)
class StintCall:
    """A call that belongs to a stint."""

    link_id: int
    seq: int


@dataclass(slots=True)
class OpenIo(StintCall):
    """Run the data phase of an open link. From here on the shard owns the io half of the session."""

    session: Session
    link: Link
    traffic: Traffic


@dataclass(slots=True)
class SendIo(StintCall):
    """Queue a message of the application."""

    message: Message


@dataclass(slots=True)
class KeepAliveIo(StintCall):
    """Send a keepalive."""


@dataclass(slots=True)
class UnblockIo(StintCall):
    """Release a link that an interceptor holds."""


@dataclass(slots=True)
class FinishIo(StintCall):
    """Refuse further messages: break the link with SHUTDOWN once the queue is drained and acknowledged."""


@dataclass(slots=True)
class LeaveIo(StintCall):
    """Close the link and return the io half of the session to the home shard."""

    fault: Fault
    last: bool
    """True if the session ends, not only this link."""


@dataclass(slots=True)
class ReleaseIo:
    """Return to a throttle what the application has released; belongs to no stint and needs no order."""

    amount: int
    throttle: str
    """Name of the throttle; ``amount`` is in its units."""


@dataclass(slots=True)
class DeliverIo(StintCall):
    """Deliver messages to the application."""

    deliver: Deliver


@dataclass(slots=True)
class FaultIo(StintCall):
    """Report that the link broke; the io half stays on the shard until it is recalled."""

    fault: Fault


@dataclass(slots=True)
class LeftIo(StintCall):
    """Return the io half of the session to the home shard."""


@dataclass(slots=True)
class ReconfigureIo:
    """Apply changed options; belongs to no stint."""


ToShard = OpenIo | SendIo | KeepAliveIo | UnblockIo | FinishIo | LeaveIo | ReleaseIo | ReconfigureIo
ToHome = DeliverIo | FaultIo | LeftIo
