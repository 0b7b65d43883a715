"""Replays the sessions of a capture and reports the result of each."""

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
from toolkit.replay.scenario_writer import Saved, save_sessions

NOTHING_SENT = "that side sent nothing"
"""Reason why there was nothing to compare."""


class Role(StrEnum):
    """The side of each session that our messenger plays."""

    CLIENT = "client"
    """The side that opened the session's first link."""
    SERVER = "server"


@dataclass(slots=True)
class Replayed:
    """The result of one session."""

    session: int
    title: str
    protocol: str
    mode: str
    links: list[int]
    """Numbers of the streams in the capture."""
    not_replayed: str = ""
    """Reason why it could not be replayed; empty if it was."""
    authenticated: list[int] = field(default_factory=list)
    """Links for which our own cephx computed the authentication; on others it is as recorded."""
    comparison: Comparison = field(default_factory=Comparison)


@dataclass(slots=True)
class ReplayResult:
    """The results of a capture's sessions."""

    role: Role
    sessions: list[Replayed]
    problem: str | None
    """The part of the capture that could not be read or decoded; None if everything was."""
    saved: list[Saved] = field(default_factory=list)
    """The sessions as scenarios; empty unless ``save`` was given."""

    @property
    def differs(self) -> bool:
        """True if our side of a session sent something that no rule allows."""
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
    """Replay each session of a capture with our messenger in the place of one side.

    Args:
        source: path of the capture, or a list of several.
        role: the side; see :class:`Role`.
        keyrings: files with keys of clients, daemons or services.
        key_logs: files with keys of links; key logs inside the capture are always used.
        session: number of the only session to replay, as in ``msgrlab analyze``; None replays all.
        ports: decode only connections with one of these ports at either end; None decodes all.
        save: path of a new file for the sessions as scenarios; their frames are written beside it.

    Raises:
        LocalError: a file cannot be read or written or is malformed, or the session does not exist.
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
    """Return the name of a capture, or of its first file."""
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
    except LocalError as error:  # the other sessions can still be replayed
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
    """If another setting of one disputed rule makes both sides equal, report that rule as the difference."""
    for rule, settings in SETTINGS.items():
        for setting in settings[1:]:
            found, _ = _compared(session, party, book, {rule: setting})
            if not found.differences:
                found.allowed[f"{rule}={setting}"] += len(first.differences)
                found.equal = max(found.compared - found.allowed.total(), 0)
                return found
    return first
