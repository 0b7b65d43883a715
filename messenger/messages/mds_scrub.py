"""Messages between MDSs about scrubs, and about pauses of changes for snapshots (docs/protocol.md §6.1)."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from messenger.denc.layout import I32, U8, U32, U64, Since
from messenger.messages.layout import Enveloped, Fields
from messenger.messages.types import MessageType


@dataclass(slots=True)
class MMDSScrub(Fields):
    """Requests another MDS to scrub a directory or an inode, or answers such a request; from Octopus on."""

    TYPE: ClassVar = MessageType.MDS_SCRUB
    COMPAT_VERSION: ClassVar = 1

    op: I32
    """1 directory, 2 inode, negative: acknowledged; 3 abort, 4 pause, 5 resume."""
    ino: U64 = 0
    frags: list[U32] = field(default_factory=list)
    """Fragments of the directory."""
    tag: str = ""
    origin: U64 = 0
    """The inode at which the scrub has begun."""
    flags: U32 = 0
    """1 the tag was generated, 2 force, 4 recursive, 8 repair."""


@dataclass(frozen=True, slots=True)
class InlineCounts(Fields):
    """Files whose contents a scrub moves out of their inodes."""

    started: U64 = 0
    passed: U64 = 0
    failed: U64 = 0
    skipped: U64 = 0


@dataclass(slots=True)
class MMDSScrubStats(Fields):
    """Rank 0 requests the state of scrubs from the other MDSs, and their answer."""

    TYPE: ClassVar = MessageType.MDS_SCRUB_STATS
    VERSION: ClassVar = 2
    COMPAT_VERSION: ClassVar = 1

    epoch: U32
    """Number of the request."""
    tags: set[str] = field(default_factory=set)
    """Tags of the scrubs in progress."""
    has_tags: bool = False
    """True if ``tags`` are complete."""
    aborting: bool = False
    inline_failures: Annotated[list[tuple[str, list[tuple[I32, list[U64]]]]], Since(2)] = field(
        default_factory=list
    )
    """Inodes whose contents could not be moved, by tag and error."""
    paths: Annotated[list[tuple[U64, str]], Since(2)] = field(default_factory=list)
    """Paths of these inodes."""
    inline_counts: Annotated[list[tuple[str, InlineCounts]], Since(2)] = field(default_factory=list)
    """By tag."""


@dataclass(frozen=True, slots=True)
class QuiesceVersion(Enveloped):
    """Version of the database of pauses."""

    VERSION: ClassVar = 1

    epoch: U32 = 0
    set_version: U64 = 0


@dataclass(frozen=True, slots=True)
class QuiesceState(Enveloped):
    """A state, and when it was reached."""

    VERSION: ClassVar = 1

    state: U8 = 0
    """1 quiescing, 2 quiesced, 3 releasing, 4 released, 5 failed, 6 timed out, 7 canceled, 8 expired."""
    at_age_ns: U64 = 0
    """Age of the database at that time."""


@dataclass(frozen=True, slots=True)
class QuiesceMember(Enveloped):
    """A directory of a set."""

    VERSION: ClassVar = 1

    state: QuiesceState = QuiesceState()
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class QuiesceSet(Enveloped):
    """Directories in which changes are paused together."""

    VERSION: ClassVar = 1

    version: U64 = 0
    state: QuiesceState = QuiesceState()
    timeout_ns: U64 = 0
    expiration_ns: U64 = 0
    members: list[tuple[str, QuiesceMember]] = field(default_factory=list)
    """By path."""


@dataclass(frozen=True, slots=True)
class QuiesceDb(Enveloped):
    """The database of pauses."""

    VERSION: ClassVar = 1

    version: QuiesceVersion = QuiesceVersion()
    age_ns: U64 = 0
    sets: list[tuple[str, QuiesceSet]] = field(default_factory=list)
    """By name."""


@dataclass(frozen=True, slots=True)
class QuiesceListing(Enveloped):
    """The database, and the MDS from which it comes."""

    VERSION: ClassVar = 1

    origin: U64 = 0
    """Global id of the MDS."""
    db: QuiesceDb = field(default_factory=QuiesceDb)


@dataclass(slots=True)
class MMDSQuiesceDbListing(Fields):
    """The leader's database of pauses, for the other MDSs."""

    TYPE: ClassVar = MessageType.MDS_QUIESCE_DB_LISTING
    COMPAT_VERSION: ClassVar = 1

    listing: QuiesceListing = field(default_factory=QuiesceListing)


@dataclass(frozen=True, slots=True)
class QuiesceRoot(Enveloped):
    """State of a directory at one MDS."""

    VERSION: ClassVar = 1

    state: U8 = 0
    """As in :class:`QuiesceState`."""
    ttl_ns: U64 = 0


@dataclass(frozen=True, slots=True)
class QuiesceMap(Enveloped):
    """States of directories at one MDS."""

    VERSION: ClassVar = 1

    version: QuiesceVersion = QuiesceVersion()
    roots: list[tuple[str, QuiesceRoot]] = field(default_factory=list)
    """By path."""


@dataclass(frozen=True, slots=True)
class QuiesceAck(Enveloped):
    """States that differ from those of the leader, and the MDS from which they come."""

    VERSION: ClassVar = 1

    origin: U64 = 0
    """Global id of the MDS."""
    diff: QuiesceMap = field(default_factory=QuiesceMap)


@dataclass(slots=True)
class MMDSQuiesceDbAck(Fields):
    """An MDS's answer to the leader: which directories have reached another state."""

    TYPE: ClassVar = MessageType.MDS_QUIESCE_DB_ACK
    COMPAT_VERSION: ClassVar = 1

    ack: QuiesceAck = field(default_factory=QuiesceAck)
