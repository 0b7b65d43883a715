"""Calls between shards, as values that carry their place in the order (messenger/shards restores that order).

A *stint* is the time a link spends on a shard. The calls of a stint are numbered from 1 in each direction; they
may arrive in any order and are applied in theirs. The first call to a shard is :class:`OpenIo`, the last one
:class:`LeaveIo`; the last one back is :class:`LeftIo`.
"""

from dataclasses import dataclass

from messenger.errors import Fault
from messenger.link import Link
from messenger.messages.message import Message
from messenger.outputs import Deliver
from messenger.session.session import Session


@dataclass(slots=True)
class Traffic:
    """How many calls of a stint were made and applied. Each number is written by one of the two shards only."""

    to_shard: int = 0
    applied_by_shard: int = 0
    to_home: int = 0
    applied_at_home: int = 0

    @property
    def travelling(self) -> int:
        """Calls on their way."""
        return self.to_shard - self.applied_by_shard + self.to_home - self.applied_at_home


@dataclass(slots=True)
class StintCall:
    """A call that belongs to a stint."""

    link_id: int
    seq: int


@dataclass(slots=True)
class OpenIo(StintCall):
    """The link is open: run its data phase. The io half of the session is the shard's from here on."""

    session: Session
    link: Link
    traffic: Traffic


@dataclass(slots=True)
class SendIo(StintCall):
    """The application sends."""

    message: Message


@dataclass(slots=True)
class KeepAliveIo(StintCall):
    """The application asks for a sign of life."""


@dataclass(slots=True)
class UnblockIo(StintCall):
    """Release what an interceptor holds."""


@dataclass(slots=True)
class FinishIo(StintCall):
    """Refuse further messages: break the link with SHUTDOWN once the queue is drained and acknowledged."""


@dataclass(slots=True)
class LeaveIo(StintCall):
    """Close the link and give the io half of the session back."""

    fault: Fault
    last: bool
    """The session is over, not only this link."""


@dataclass(slots=True)
class ReleaseIo:
    """The application is done with something received; belongs to no stint and needs no order."""

    amount: int
    throttle: str
    """The throttle that gets it back; ``amount`` is in its units."""


@dataclass(slots=True)
class DeliverIo(StintCall):
    """Messages for the application."""

    deliver: Deliver


@dataclass(slots=True)
class FaultIo(StintCall):
    """The link broke; the io half stays here until it is called back."""

    fault: Fault


@dataclass(slots=True)
class LeftIo(StintCall):
    """The io half of the session is the home shard's again."""


@dataclass(slots=True)
class ReconfigureIo:
    """Options have changed; belongs to no stint."""


ToShard = OpenIo | SendIo | KeepAliveIo | UnblockIo | FinishIo | LeaveIo | ReleaseIo | ReconfigureIo
ToHome = DeliverIo | FaultIo | LeftIo
