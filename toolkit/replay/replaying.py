"""Replay the sessions of a capture, and say what became of each."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from messenger.errors import LocalError
from messenger.rules import SETTINGS
from toolkit.capture.formats.source import CaptureFiles
from toolkit.dissect.keys import KeyBook
from toolkit.replay.compare import Comparison
from toolkit.replay.player import Player
from toolkit.replay.record import RecordedSession, Recording
from toolkit.replay.saving import Saved, save_sessions

NOTHING_SENT = "that side sent nothing"
"""Why there was nothing to compare."""


class Role(StrEnum):
    """Which side of each session our messenger is."""

    CLIENT = "client"
    """The one that opened the session's first link."""
    SERVER = "server"


@dataclass(slots=True)
class Replayed:
    """What became of one session."""

    session: int
    title: str
    protocol: str
    mode: str
    links: list[int]
    """Streams of the capture."""
    not_replayed: str = ""
    """Why it could not be replayed, in words; empty if it was."""
    authenticated: list[int] = field(default_factory=list)
    """Those of the links whose authentication our own cephx has computed; of others it is as in the record."""
    comparison: Comparison = field(default_factory=Comparison)


@dataclass(slots=True)
class ReplayResult:
    """What became of the sessions of a capture."""

    role: Role
    sessions: list[Replayed]
    problem: str | None
    """What of the capture could not be read or decoded; None if everything was."""
    saved: list[Saved] = field(default_factory=list)
    """The sessions as scenarios, if they were to be saved."""

    @property
    def differs(self) -> bool:
        """True if our side of some session sent something that no rule allows."""
        return any(session.comparison.differences for session in self.sessions)


def replay_capture(
    source: CaptureFiles,
    role: Role | str,
    keyrings: Sequence[Path] = (),
    key_logs: Sequence[Path] = (),
    *,
    session: int | None = None,
    ports: Collection[int] | None = None,
    save: Path | None = None,
) -> ReplayResult:
    """Put our messenger in the place of one side of each session of a capture.

    Args:
        source: the capture's file, or several.
        role: which side; see :class:`Role`.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; those inside the capture are used in any case.
        session: replay this one only, by the number that ``msgrlab analyze`` gives it.
        ports: look at connections only that have one of these at either end; None: at all.
        save: write the sessions as scenarios to this file, which must not exist; their frames go beside it.

    Raises:
        LocalError: a file cannot be read, written or is of another kind, or there is no such session.
    """
    role = Role(role)
    recording = Recording(source, KeyBook.read(keyrings, key_logs), ports)
    chosen = recording.sessions if session is None else [recording.session(session)]
    result = ReplayResult(role, [_replayed(each, role, recording.book) for each in chosen], recording.problem)
    if save is not None:
        result.saved = save_sessions(chosen, _party(role), save, _shown(source))
    return result


def _party(role: Role) -> int:
    return 0 if role is Role.CLIENT else 1


def _shown(source: CaptureFiles) -> str:
    """The name of a capture, or of its first file."""
    first = source[0] if isinstance(source, Sequence) and not isinstance(source, str) else source
    return Path(first).name if isinstance(first, str | Path) else "-"


def _replayed(session: RecordedSession, role: Role, book: KeyBook) -> Replayed:
    streams = [link.stream.index for link in session.links]
    result = Replayed(session.index, session.title, session.protocol, session.mode, streams, session.problem)
    if result.not_replayed:
        return result
    party = _party(role)
    try:
        result.comparison, result.authenticated = _compared(session, party, book, {})
        if result.comparison.differences:
            result.comparison = _with_a_rule(session, party, book, result.comparison)
    except LocalError as error:  # the others can be replayed all the same
        result.not_replayed = str(error)
        return result
    if not result.comparison.compared:
        result.not_replayed = NOTHING_SENT
    return result


def _compared(
    session: RecordedSession, party: int, book: KeyBook, rules: dict[str, str]
) -> tuple[Comparison, list[int]]:
    player = Player(session, party, book, rules)
    player.play()
    found = Comparison()
    for played in player.links:
        found.take(played)
    return found, player.authenticated


def _with_a_rule(session: RecordedSession, party: int, book: KeyBook, first: Comparison) -> Comparison:
    """Where one disputed rule, set otherwise, makes the two sides equal, that is what they differ in."""
    for rule, settings in SETTINGS.items():
        for setting in settings[1:]:
            found, _ = _compared(session, party, book, {rule: setting})
            if not found.differences:
                found.allowed[f"{rule}={setting}"] += len(first.differences)
                found.equal = max(found.compared - found.allowed.total(), 0)
                return found
    return first
