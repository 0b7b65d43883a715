"""Writes recorded sessions as scenarios, which run on the simulator and can be edited."""

import json
import keyword
import re
import shlex
import textwrap
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from messenger.denc.entity import NEW_ENTITY_NUM, EntityType
from messenger.errors import LocalError
from toolkit.dissect.direction import Direction
from toolkit.dissect.frames import DecodedFrame
from toolkit.replay.handshake import Side
from toolkit.replay.record import DATA_TAGS, RecordedLink, RecordedSession
from toolkit.replay.saved import VERSION
from toolkit.replay.sends import ORIGINATES
from toolkit.scenarios.files import scenarios_in
from toolkit.scenarios.runner import run_scenario

NOTHING_PASSED = "no message or keepalive passed on it"
"""Reason why there was nothing to save."""
MOST_FRAMES = 5000
"""Limit of frames in a session: a longer scenario could not be read and edited."""
_PAUSE_S = 0.1
"""Shorter pauses of the record are omitted: the simulator has its own latencies."""
_WIDTH = 100
_PEERS = frozenset({EntityType.OSD, EntityType.MDS, EntityType.MON})
_NANO = 1e9

_FILE = '''"""Sessions of {capture}, saved as scenarios: our node in place of each session's {role}.

    msgrlab run {file}

Each line is a step, and frames have the numbers of the capture (msgrlab decode {capture}). Change the steps to
see what another cut, another order or a missing frame does. Saved by
{command}
"""

from pathlib import Path

from toolkit import Lab, scenario
from toolkit.replay import SavedSession
'''

_SCENARIO = '''

@scenario(ways=["{way}"], backends=["sim"])
def {name}(lab: Lab) -> None:
    """Session {index} of {capture}: {title}, with our node as {entity}."""
    session = SavedSession(lab, Path(__file__).with_name("{frames}"))
{steps}
'''


@dataclass(slots=True)
class Saved:
    """The result of saving one session."""

    session: int
    title: str
    scenario: str = ""
    """``FILE::NAME``; empty if it was not saved."""
    steps: int = 0
    problem: str = ""
    """Reason why it was not saved; empty if it was."""
    left_out: list[str] = field(default_factory=list)
    """Parts of the record that the scenario does not contain."""


@dataclass(slots=True)
class _Script:
    """A session as steps and frames."""

    about: dict[str, Any]
    frames: list[dict[str, Any]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def save_sessions(sessions: Sequence[RecordedSession], party: int, path: Path, capture: str) -> list[Saved]:
    """Write the sessions as scenarios into one file, and their frames beside it.

    A session is saved only if its scenario passes: it is run before anything is written.

    Args:
        sessions: sessions of a capture.
        party: index of the party that our node plays: 0, which dialled first, or 1.
        path: path of the file of scenarios; it must not exist.
        capture: name of the capture, for the text.

    Raises:
        LocalError: the file or a file of frames exists, or cannot be written.
    """
    _check_place(path, sessions)
    role = "server" if party else "client"
    command = shlex.join(["msgrlab", "replay", capture, "--as", role, "--save", path.name])
    head = _FILE.format(capture=capture, file=path.name, role=role, command=command)
    results, texts, beside = [], [], {}
    with TemporaryDirectory(prefix="msgrlab-save-") as scratch:
        for session in sessions:
            result, scenario, frames = _saved(session, party, Path(scratch) / path.name, head, capture)
            results.append(result)
            if not result.problem:
                result.scenario = f"{path}::{result.scenario}"
                texts.append(scenario)
                beside[_frames_name(path, session)] = frames
    if texts:
        _write({path.name: head + "".join(texts), **beside}, path.parent)
    return results


def _check_place(path: Path, sessions: Sequence[RecordedSession]) -> None:
    if path.suffix != ".py":
        raise LocalError(f"{path}: scenarios are in files that end in .py")
    if not path.parent.is_dir():
        raise LocalError(f"{path.parent}: this directory does not exist")
    for name in (path.name, *(_frames_name(path, session) for session in sessions)):
        if (path.parent / name).exists():
            raise LocalError(f"{path.parent / name}: the file exists and is not overwritten; name another file")


def _frames_name(path: Path, session: RecordedSession) -> str:
    return f"{path.stem}-{session.index}.ndjson"


def _write(files: dict[str, str], directory: Path) -> None:
    try:
        for name, text in files.items():
            with (directory / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise LocalError(f"{directory / name}: {error.strerror}") from None


def _saved(session: RecordedSession, party: int, path: Path, head: str, capture: str) -> tuple[Saved, str, str]:
    """Write a session's scenario and its frames, and run it."""
    result = Saved(session.index, session.title, problem=session.problem)
    if not result.problem and sum(len(link.frames) for link in session.links) > MOST_FRAMES:
        result.problem = f"it has more than {MOST_FRAMES} frames"
    script = None if result.problem else _script(session, party)
    if script is None or not script.frames:
        result.problem = result.problem or NOTHING_PASSED
        return result, "", ""
    result.scenario, result.steps, result.left_out = _name(session), len(script.steps), script.left_out
    scenario = _SCENARIO.format(
        way="v1" if session.protocol == "v1" else f"v2-{session.mode or 'crc'}",
        name=result.scenario,
        index=session.index,
        capture=capture,
        title=session.title,
        entity=script.about["node"],
        frames=_frames_name(path, session),
        steps="\n".join(f"    {step}" for step in script.steps),
    )
    frames = "".join(f"{json.dumps(line)}\n" for line in (script.about, *script.frames))
    _write({_frames_name(path, session): frames}, path.parent)
    path.write_text(head + scenario, encoding="utf-8")
    result.problem = _complaint(path)
    return result, scenario, frames


def _complaint(path: Path) -> str:
    """Return the first problem of the only scenario of a file; empty if it passes."""
    (scenario,) = scenarios_in(path)
    run = run_scenario(scenario, "sim", scenario.ways[0], 1)
    return "" if run.passed else f"its scenario does not pass: {run.complaints[0].replace(f'{path.parent}/', '')}"


def _name(session: RecordedSession) -> str:
    words = re.sub(r"\W+", "_", f"session {session.index} {session.names[0]} to {session.names[1]}").strip("_")
    return f"{words}_" if keyword.iskeyword(words) else words


# ---- a session as steps


def _script(session: RecordedSession, party: int) -> _Script:
    mine = [link.handshake.side(link.sent_by(party)) for link in session.links]
    theirs = [link.handshake.side(link.sent_by(1 - party)) for link in session.links]
    lossy = any(bool(side.lossy) for side in (*mine, *theirs))
    about = {
        "msgrlab_session": VERSION,
        "session": session.title,
        "node": _entity(mine),
        "peer": _entity(theirs),
        "policy": _policy(mine, theirs, party, lossy=lossy),
        "lossy": lossy,
    }
    script = _Script(about)
    _Writer(script, session, party).write()
    return script


def _entity(sides: Sequence[Side]) -> str:
    kind = next((side.kind for side in sides if side.kind is not None), EntityType.CLIENT)
    number = next((side.number for side in sides if side.number is not None), 0)
    return f"{kind.label}.{0 if number == NEW_ENTITY_NUM else max(number, 0)}"


def _policy(mine: Sequence[Side], theirs: Sequence[Side], party: int, *, lossy: bool) -> str:
    """Return the policy of our node, from the flags and types in the record."""
    kinds = {side.kind for side in (*mine, *theirs) if side.kind is not None}
    if lossy:
        return "stateless_server" if party else "lossy_client"
    if len(kinds) == 1 and kinds <= _PEERS:
        return "lossless_peer_reuse" if EntityType.MON in kinds else "lossless_peer"
    return "stateful_server" if party else "lossless_client"


class _Writer:
    """Writes the steps of one session."""

    def __init__(self, script: _Script, session: RecordedSession, party: int) -> None:
        self._script = script
        self._session = session
        self._party = party
        self._first: dict[object, int] = {}
        """For each message of our node, the frame that carried it first."""
        self._sent: set[int] = set()
        self._pending: tuple[str, list[int], list[str]] | None = None
        """The verb being written: its name, its frames, and their descriptions."""
        self._began_ns = 0
        self._last_ns = 0

    def write(self) -> None:
        """Fill the script."""
        links = [link for link in self._session.links if self._was_open(link)]
        self._began_ns = self._last_ns = links[0].frames[0].time_ns if links else 0
        for number, link in enumerate(links):
            following = links[number + 1] if number + 1 < len(links) else None
            self._link(link, following)

    def _was_open(self, link: RecordedLink) -> bool:
        """True if messages could pass; links that ended in their handshake are not part of the scenario."""
        if any(frame.tag in DATA_TAGS for frame in link.frames):
            return True
        self._script.left_out.append(f"link {link.stream.index}, which ended in its handshake or carried nothing")
        return False

    def _link(self, link: RecordedLink, following: RecordedLink | None) -> None:
        ours = link.sent_by(self._party)
        frames = [frame for frame in link.frames if frame.tag in DATA_TAGS]
        self._pause(link.frames[0])
        dials = ours is Direction.TO_SERVER
        if dials and link.handshake.resumed:
            # A session in standby dials when it has something to send.
            self._send(next((frame for frame in frames if self._is_new(link, frame)), None), link)
        self._step("node_dials" if dials else "peer_dials", comment=f"link {link.stream.index}")
        lost = 0
        for frame in frames:
            self._pause(frame)
            if frame.direction is ours:
                self._send(frame, link)
            if not link.arrived(frame):
                lost += 1
            elif frame.direction is ours:
                self._grow("peer_receives", frame, link)
            else:
                self._grow("peer_sends", frame, link)
        if lost:
            self._script.left_out.append(f"{lost} frames that link {link.stream.index} lost when it ended")
        self._ends(link, ours, following)

    def _ends(self, link: RecordedLink, ours: Direction, following: RecordedLink | None) -> None:
        if link.end is None:
            self._flush()
            return
        resumed = following is not None and following.handshake.resumed
        by_us = link.end.direction is ours and not resumed
        self._step("node_hangs_up" if by_us else "peer_hangs_up")

    def _is_new(self, link: RecordedLink, frame: DecodedFrame) -> bool:
        """True for a message of our node that no earlier frame carried."""
        if frame.message is None or frame.direction is not link.sent_by(self._party):
            return False
        return self._key(frame) not in self._first

    @staticmethod
    def _key(frame: DecodedFrame) -> object:
        assert frame.message is not None
        return frame.message.seq, frame.message.type, tuple(map(bytes, frame.segments[1:]))

    def _send(self, frame: DecodedFrame | None, link: RecordedLink) -> None:
        """Make our node send the message of a frame, unless the messenger sends it by itself."""
        if frame is None or frame.frame in self._sent or frame.tag not in ORIGINATES:
            return
        if frame.message is not None:
            key = self._key(frame)
            if self._first.setdefault(key, frame.frame) != frame.frame and link.handshake.resumed:
                return
            self._first[key] = frame.frame
        self._sent.add(frame.frame)
        self._grow("node_sends", frame, link)

    # ---- lines

    def _pause(self, frame: DecodedFrame) -> None:
        if frame.time_ns - self._last_ns >= _PAUSE_S * _NANO:
            self._flush()
            self._script.steps.append(f"session.at({(frame.time_ns - self._began_ns) / _NANO:.3f})")
        self._last_ns = frame.time_ns

    def _step(self, verb: str, comment: str = "") -> None:
        self._flush()
        self._script.steps.append(f"session.{verb}()" + (f"  # {comment}" if comment else ""))

    def _grow(self, verb: str, frame: DecodedFrame, link: RecordedLink) -> None:
        if self._pending is None or self._pending[0] != verb:
            self._flush()
            self._pending = verb, [], []
        record = self._as_record(frame, link)
        if all(known["frame"] != frame.frame for known in self._script.frames[-1:]):
            self._script.frames.append(record)
        self._pending[1].append(frame.frame)
        self._pending[2].append(record["what"])

    def _flush(self) -> None:
        if self._pending is None:
            return
        (verb, numbers, what), self._pending = self._pending, None
        self._script.steps += _lines(verb, numbers, what)

    def _as_record(self, frame: DecodedFrame, link: RecordedLink) -> dict[str, Any]:
        """Return a frame in the form of the file of frames."""
        ours = frame.direction is link.sent_by(self._party)
        record: dict[str, Any] = {"frame": frame.frame, "side": "node" if ours else "peer", "tag": frame.tag}
        info, fields = frame.message, frame.fields
        record["what"] = frame.tag if info is None else info.name
        if info is None:
            record |= {"seq": fields["seq"]} if "seq" in fields else {}
            record |= {"stamp": [fields["seconds"], fields["nanoseconds"]]} if "seconds" in fields else {}
            return record
        record |= {"seq": info.seq, "ack_seq": info.ack_seq, "sizes": [len(each) for each in frame.segments]}
        if ours:
            first = self._first.get(self._key(frame), frame.frame)
            return record | ({"again": first} if first != frame.frame else {})
        record["header"] = {
            "tid": info.tid,
            "type_": info.type,
            "version": info.version,
            "compat_version": info.compat_version,
        }
        record["parts"] = [b64encode(part).decode() for part in frame.segments[1:]]
        return record


def _lines(verb: str, numbers: Sequence[int], what: Sequence[str]) -> Iterator[str]:
    """Yield a verb with its frames in lines of limited length; a comment describes the frames."""
    words = [f"{number}," for number in numbers]
    text = " ".join(words).removesuffix(",")
    for part in textwrap.wrap(text, _WIDTH - len(f"    session.{verb}()")):
        chosen = [int(word) for word in part.replace(",", " ").split()]
        comment = ", ".join(dict.fromkeys(what[numbers.index(number)] for number in chosen))
        line = f"session.{verb}({part.removesuffix(',')})"
        shown = textwrap.shorten(comment, max(_WIDTH - len(line) - 2, 24), placeholder=" ...")
        yield f"{line}  # {shown}"
