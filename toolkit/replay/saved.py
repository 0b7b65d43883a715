"""Runs a saved session on a lab: our node on one side, and a peer that sends the recorded frames on the other.

``msgrlab replay CAPTURE --save FILE`` writes scenarios of these verbs, one for each session::

    @scenario(ways=["v2-crc"], backends=["sim"])
    def session_8_osd_0_to_osd_1(lab: Lab) -> None:
        session = SavedSession(lab, Path(__file__).with_name("mine-8.ndjson"))
        session.node_dials()
        session.node_sends(154)
        session.peer_receives(154)
        session.peer_sends(156, 157)

Frames have the numbers of the capture. The peer's frames have the recorded contents and sequence numbers; our
node's frames have the recorded sizes. Handshakes, keys and acknowledgements are those of the run.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from messenger.errors import LocalError
from messenger.session.states import SessionState
from messenger.v1 import wire as v1
from messenger.v2 import wire as v2
from toolkit.errors import ScenarioFailed
from toolkit.node.raw.v1 import FINAL, RawV1Message
from toolkit.node.raw.v2 import RawMessage

if TYPE_CHECKING:
    from toolkit.lab.lab import Lab

NODE, PEER = "a", "b"
"""Names of our node and of the recorded side in a lab."""
VERSION = 1
"""Version of the format of saved frames."""
_LOSSY = 1
_MOST_BYTES = 256 << 20
_MOST_RETRIES = 3
_MESSAGE = frozenset({"MESSAGE", "MSG"})


class SavedSession:
    """The verbs of a saved session.

    Args:
        lab: lab in which it runs; our node is ``a``, the recorded side ``b``.
        path: file with the session's frames, written by ``msgrlab replay --save``.

    Raises:
        LocalError: the file cannot be read, or is not a saved session.
    """

    def __init__(self, lab: "Lab", path: Path) -> None:
        self.lab = lab
        about, self.frames = _read(path)
        self.link: Any = None
        """The open link, of either protocol; None between two links."""
        self._lossy = bool(about["lossy"])
        self._tids: dict[int, int] = {}
        """By frame number, the tid of our node's message."""
        self._arrived: list[Any] = []
        """Frames of our node on this link that :meth:`peer_receives` has not consumed."""
        self._seqs: dict[int, int] = {}
        """Recorded sequence numbers of our messages in this session, with those of the run."""
        self._acked = 0
        self._sent_seqs: set[int] = set()
        self._delivered = 0
        """Number of messages that our node must have delivered in all sessions so far."""
        self._stamp = 0, 0
        self._resumable = False
        self._opened = 0
        self._cookies = 0, 0
        lab.node(NODE, about["node"], about["policy"])
        self._peer = lab.raw(PEER, about["peer"])
        lab.start()

    # ---- links

    def node_dials(self) -> None:
        """Wait until our node dials, and open or resume its session as the recorded side would.

        Raises:
            ScenarioFailed: our node does not dial, or the handshake fails.
        """
        self._end()
        state = self.lab.session_state(NODE, PEER)
        if state in {"", SessionState.CLOSED, SessionState.READY}:
            self.lab.dial(NODE, PEER)
        link = self._peer.accept(NODE)
        link.handshake(until=link.connect if self.lab.is_v1 else link.ident)
        self._accept_v1(link) if self.lab.is_v1 else self._accept_v2(link)
        self._open(link)

    def peer_dials(self) -> None:
        """Make the recorded side dial our node, and open a session, or resume the one that both have.

        Raises:
            ScenarioFailed: our node does not accept the session.
        """
        self._end()
        link = self._peer.dial(NODE)
        link.handshake(until=link.connect if self.lab.is_v1 else link.ident)
        self._connect_v1(link) if self.lab.is_v1 else self._connect_v2(link)
        self._open(link)

    def peer_hangs_up(self) -> None:
        """Close the link on the peer's side: our node reads the end of the stream."""
        closes = self.lab.closes(NODE)
        self._here().hang_up()
        self.lab.expect_closes(NODE, closes + 1)
        self._end()

    def node_hangs_up(self) -> None:
        """Make our node's application end the session."""
        self._here()
        self.lab.mark_down(NODE, PEER)
        self._resumable = False
        self._end()

    # ---- frames

    def node_sends(self, *frames: int) -> None:
        """Make our node send the messages and keepalives of these frames, by their numbers in the capture.

        Messages have the recorded sizes, and contents of the run.
        """
        for number in frames:
            frame = self._frame(number, "node")
            if frame["tag"] not in _MESSAGE:
                self.lab.keepalive(NODE, PEER)
                continue
            _, front, middle, data = frame["sizes"]
            self.lab.send(NODE, PEER, 1, data, front_bytes=front, middle_bytes=middle)
            records = reversed(self.lab.history.records)
            sent = next((record for record in records if record.node == NODE and record.kind == "send"), None)
            self._tids[number] = int(sent["tid"]) if sent is not None else 0

    def peer_receives(self, *frames: int) -> None:
        """Wait until our node has sent these frames on this link: messages in this order, of these sizes.

        When a link is reopened, the peer acknowledges only the messages that it received by this verb.

        Raises:
            ScenarioFailed: our node does not send one.
        """
        for number in frames:
            frame = self._frame(number, "node")
            match frame["tag"]:
                case "MESSAGE" | "MSG":
                    self._receive_message(number, frame)
                case "ACK":
                    self._receive_ack(number, frame)
                case _:
                    self._await(number, lambda one, tag=frame["tag"]: _tag(one) == tag)

    def peer_sends(self, *frames: int) -> None:
        """Send these frames of the recorded side, and wait until our node has delivered the messages in them.

        Raises:
            ScenarioFailed: our node does not deliver one of the messages.
        """
        for number in frames:
            frame, link = self._frame(number, "peer"), self._here()
            if frame["tag"] not in _MESSAGE:
                self._send_control(frame)
                continue
            header, seq = frame["header"], frame["seq"]
            parts = dict(zip(("front", "middle", "data"), map(b64decode, frame["parts"]), strict=True))
            acks = {} if self.lab.is_v1 else {"ack_seq": self._ours_up_to(frame["ack_seq"])}
            link.note(f"sends frame {number} of the capture, {_described(number, frame)}")
            link.write(link.message(seq, **header, **parts, **acks))
            if seq not in self._sent_seqs:
                self._sent_seqs.add(seq)
                self._delivered += 1
            self.lab.wait_for(
                lambda: self.lab.delivered(PEER, NODE) >= self._delivered,
                f"{_described(number, frame)} delivered at {NODE}",
                self._actual_frames,
                within_s=link.patience_s,
            )

    def at(self, time_s: float) -> None:
        """Wait until ``time_s`` seconds after the session's first frame; return at once if they have passed."""
        if (left_s := time_s - self.lab.now_s) > 0:
            self.lab.wait(left_s)

    # ---- internals: links

    def _here(self) -> Any:  # noqa: ANN401 - of either protocol
        if self.link is None:
            raise ScenarioFailed("no link is open here: node_dials() or peer_dials() opens one")
        return self.link

    def _end(self) -> None:
        self.link = None
        self._arrived.clear()
        self._resumable &= not self._lossy

    def _open(self, link: Any) -> None:  # noqa: ANN401 - of either protocol
        self.link, self._resumable = link, True
        self._opened += 1
        if not self.lab.is_v1:
            self._cookies = link.client_cookie, link.server_cookie
        self.lab.expect_state(NODE, PEER, "READY")

    def _begin(self) -> None:
        """Forget the state of the previous session."""
        self._seqs.clear()
        self._sent_seqs.clear()
        self._acked = self._opened = 0

    @property
    def _in_seq(self) -> int:
        """Return the seq of the last message that the peer received in this session, by the numbers of the run."""
        return max(self._seqs.values(), default=0)

    @property
    def _flags(self) -> int:
        return _LOSSY if self._lossy else 0

    def _accept_v2(self, link: Any) -> None:  # noqa: ANN401
        wish = link.await_next()
        if isinstance(wish, v2.SessionReconnect) and self._resumable:
            link.client_cookie, link.server_cookie = wish.client_cookie, wish.server_cookie
            link.send(v2.SessionReconnectOk(self._in_seq))
            return
        if isinstance(wish, v2.SessionReconnect):
            link.send(v2.SessionReset(full=True))
            wish = link.await_next()
        if not isinstance(wish, v2.ClientIdent):
            raise ScenarioFailed(f"{wish} arrived where {NODE} must request a session")
        self._begin()
        link.client_cookie = wish.client_cookie
        link.send(link.server_ident(flags=self._flags))

    def _accept_v1(self, link: Any) -> None:  # noqa: ANN401
        resumed = bool(link.answer(flags=self._flags).connect_seq)
        if not resumed:
            self._begin()
        link.seq(self._in_seq)

    def _connect_v2(self, link: Any) -> None:  # noqa: ANN401
        if not self._resumable:
            self._begin()
            link.send(link.client_ident(flags=self._flags))
            link.expect(v2.ServerIdent)
            return
        link.client_cookie, link.server_cookie = self._cookies
        attempt = {"connect_seq": self._opened, "msg_seq": self._in_seq}
        for _ in range(_MOST_RETRIES):
            link.send(link.session_reconnect(**attempt))
            match link.await_next():
                case v2.SessionReconnectOk():
                    return
                case v2.SessionRetry() as retry:
                    attempt["connect_seq"] = retry.connect_seq + 1
                case v2.SessionRetryGlobal() as retry:
                    attempt["global_seq"] = retry.global_seq + 1
                case other:
                    raise ScenarioFailed(f"{other} arrived where {NODE} must resume the session")
        raise ScenarioFailed(f"{NODE} does not resume the session, even with higher numbers")

    def _connect_v1(self, link: Any) -> None:  # noqa: ANN401
        if not self._resumable:
            self._begin()
        numbers = {"flags": self._flags, "connect_seq": self._opened}
        reply = link.converse(**numbers)
        for _ in range(_MOST_RETRIES):
            if reply.tag is v1.Tag.RETRY_GLOBAL:
                numbers["global_seq"] = reply.global_seq + 1
            elif reply.tag is v1.Tag.RETRY_SESSION:
                numbers["connect_seq"] = reply.connect_seq
            else:
                break
            reply = link.converse(**numbers)
        if reply.tag not in FINAL:
            raise ScenarioFailed(f"{reply} arrived where {NODE} must open the session")
        link.seq(self._in_seq)

    # ---- internals: frames

    def _frame(self, number: int, side: str) -> dict[str, Any]:
        frame = self.frames.get(number)
        if frame is None:
            raise ScenarioFailed(f"the saved session has no frame {number}")
        if frame["side"] != side:
            raise ScenarioFailed(f"frame {number} is one that the {frame['side']} sends")
        return frame

    def _actual_frames(self) -> str:
        """Describe the actual frames of our node, for an error."""
        here = self._here()
        trouble = self.lab.last_fault(NODE) if here.closed else ""
        if here.closed:
            return f"{NODE} has closed the link{f': {trouble}' if trouble else ''}"
        arrived = ", ".join(map(_tag, self._arrived))
        return f"the link is open; other frames of {NODE} on it: {arrived or 'none'}"

    def _collect(self) -> None:
        for frame in self._here().rest():
            if isinstance(frame, v2.KeepAlive2 | v1.KeepAlive2):
                self._stamp = frame.seconds, frame.nanoseconds
            if isinstance(frame, RawMessage):
                self._acked = max(self._acked, frame.ack_seq)
            if isinstance(frame, v2.Ack | v1.Ack):
                self._acked = max(self._acked, frame.seq)
            self._arrived.append(frame)

    def _await(self, number: int, fits: Any) -> Any:  # noqa: ANN401 - a condition; a frame of either protocol
        """Wait for the first frame of our node that fits; frames before it are kept for later steps."""
        found: list[Any] = []

        def is_sent() -> bool:
            self._collect()
            found[:] = [frame for frame in self._arrived if fits(frame)]
            return bool(found)

        link, what = self._here(), _described(number, self.frames[number])
        self.lab.wait_for(is_sent, f"{what} sent by {NODE}", self._actual_frames, within_s=link.patience_s)
        self._arrived.remove(found[0])
        return found[0]

    def _receive_message(self, number: int, frame: dict[str, Any]) -> None:
        first = frame.get("again", number)
        if first not in self._tids:
            raise ScenarioFailed(f"{_described(number, frame)}: no earlier step makes {NODE} send it")
        tid = self._tids[first]
        found = self._await(number, lambda one: isinstance(one, RawMessage | RawV1Message) and one.tid == tid)
        if found.seq <= self._in_seq:
            raise ScenarioFailed(
                f"{_described(number, frame)} arrived with seq {found.seq}; {self._in_seq} was received"
            )
        sizes = [len(found.front), len(found.middle), len(found.data)]
        if sizes != frame["sizes"][1:]:
            raise ScenarioFailed(f"{_described(number, frame)} arrived with parts of {sizes} bytes")
        self._seqs[frame["seq"]] = found.seq

    def _receive_ack(self, number: int, frame: dict[str, Any]) -> None:
        link = self._here()

        def acknowledged() -> bool:
            self._collect()
            return self._acked >= int(frame["seq"])

        what = f"{_described(number, frame)}: messages up to {frame['seq']} acknowledged by {NODE}"
        self.lab.wait_for(
            acknowledged,
            what,
            lambda: f"it has acknowledged {self._acked}; {self._actual_frames()}",
            within_s=link.patience_s,
        )

    def _ours_up_to(self, recorded: int) -> int:
        """Return the run's seq of the last message that the peer received, of those up to a recorded seq."""
        return max((seq for number, seq in self._seqs.items() if number <= recorded), default=0)

    def _send_control(self, frame: dict[str, Any]) -> None:
        link, wire = self._here(), v1 if self.lab.is_v1 else v2
        self._collect()
        match frame["tag"]:
            case "ACK":
                link.send(wire.Ack(self._ours_up_to(frame["seq"])))
            case "KEEPALIVE2":
                link.send(wire.KeepAlive2(*frame["stamp"]))
            case "KEEPALIVE2_ACK":
                link.send(wire.KeepAlive2Ack(*self._stamp))
            case "KEEPALIVE":
                link.send(v1.KeepAlive())
            case "CLOSE":
                link.send(v1.Close())


def _tag(frame: object) -> str:
    """Return the tag of a frame of our node, as in captures."""
    if isinstance(frame, RawMessage | RawV1Message):
        return "MESSAGE"
    if isinstance(frame, v2.ControlFrame):
        return frame.TAG.name
    return str(getattr(frame, "PIECE", type(frame).__name__))


def _described(number: int, frame: dict[str, Any]) -> str:
    return f"frame {number} ({frame['what']})"


def _read(path: Path) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Read the head and the frames of a saved session."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise LocalError(f"{path}: longer than {_MOST_BYTES >> 20} MiB, the limit for saved sessions")
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        about = json.loads(head)
        if about["msgrlab_session"] != VERSION:
            raise LocalError(f"{path}: saved in format {about['msgrlab_session']}; this msgrlab reads {VERSION}")
        frames = [json.loads(line) for line in lines]
        return about, {frame["frame"]: frame for frame in frames}
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror}; it must be next to the scenario that uses it") from None
    except (ValueError, KeyError, TypeError) as error:
        _refuse(path, error)


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise LocalError(f"{path}: not a session that msgrlab replay --save has written: {error}") from None
