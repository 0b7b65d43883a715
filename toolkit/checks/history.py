"""The history of a run: its records, in one format for simulations, live runs and captures.

A history file is NDJSON: one JSON object a line, ASCII, keys in a fixed order, so that equal runs give equal
bytes. Every record has ``time`` (seconds since the run began), ``node`` (the writer) and ``kind``; the kind
determines the other fields. Fields that a kind does not define are kept; they come last, sorted. A last line
without a line end was cut off when its process was killed: it is ignored if it does not parse.

A node that restarts keeps its name; its ``process`` records give the incarnation of the records after them.
Session and link numbers start again with each incarnation.

The kinds and their fields in order (``?``: may be null, ``*``: may be missing):

* ``link``: a byte stream. link (id, unique in the node: ``a/1``), action (dial, accept, open, close), peer
  (address), session?, detail* (why it closed).
* ``frame``: one frame of a link. link, session?, direction (tx, rx), tag (HELLO and so on; BANNER for the banner),
  index (n-th of its direction on the link, from 0), offset (of its first byte in that direction's stream), length
  (bytes on the wire), fields (object: the decoded fields; for MESSAGE type, name, seq, tid, ack_seq, priority and
  the lengths front, middle, data). FOLDED stands for several consecutive frames that were judged already: fields
  has their number (frames), how many of them exceed 96 bytes (long) and are KEEPALIVE2 (keepalives; in captures,
  those without an answer), and the last seq of a message (last_seq*) and of an acknowledgement (last_ack*); index
  and offset are those of the first, length is the sum, until_s* the time of the last. On v1, tags are those of
  messenger/v1/wire.py: BANNER, IDENTIFY, CONNECT, CONNECT_REPLY (with its own tag in fields), SEQ, MSG, ACK and so
  on.
* ``state``: a session reached a state. session, peer (node name or address), policy, state (CONNECTING, READY,
  STANDBY, WAIT, CLOSED), connect_seq, global_seq, peer_global_seq, client_cookie, server_cookie, in_seq, out_seq,
  acked_seq (highest of ours the peer has acknowledged), sent (messages kept for replay), queued (messages not on
  the wire yet), anonymous* (1: not found by its peer's address), why, folded* (1: it was judged, and messages that
  it counts have left the history), earlier* (all earlier records of the session but ``send`` were judged and have
  left the history: the highest seq that the session had sent).
* ``decision``: how an acceptor treats an incoming link. link, session? (the existing one), verdict, why.
* ``event``: an event raised to the application. session, peer, event (connect, accept, reset, remote_reset,
  refused), detail.
* ``send``: the application sent a message. session, peer, tid, digest (of the payload, hex), size (bytes),
  priority* (127 where it is missing), type*, version*.
* ``deliver``: a message was delivered to the application. session, peer, tid, seq, digest, size, priority*, type*,
  version*.
* ``fault``: a link broke. session?, link, reason (name of a FaultReason), detail.
* ``mark_down``: the application ended a session; the call has returned. session, peer.
* ``io``: the io half of a session changed its state. session, link, shard (0 is the home shard), state.
* ``unhandled``: no dispatcher accepted a message. session, peer, seq, type.
* ``unsent``: a message cannot be encoded and is dropped. session, peer, tid, detail.
* ``exhausted``: a resource of the machine is used up, descriptors for example. what (accept), detail.
* ``inject``: the messenger injected a fault into itself. option (the name of Ceph's option), link*, session?*,
  detail.
* ``intercept``: an interceptor blocked a frame, or broke the link at it. link, point, action.
* ``throttle``: a throttle's value changed. name, value, limit (0: none); in bytes if the name says bytes.
* ``wait``: a link waits for a throttle. link, name (of the throttle), action (begin; admit: it was admitted;
  exceed: admitted beyond the limit, as one message at a time may be; leave: it closes).
* ``auth``: the peer of a link has authenticated. link, session?, method (cephx, none), mode (crc, secure), modes
  (the modes that this side offers or allows, the preferred one first), cipher (type of the session key),
  global_id, ticket_left_s? (remaining validity of the ticket; null without a ticket), key, tx_nonce, rx_nonce
  (digests that identify the key of secure mode and the first nonce of each direction; empty in crc mode), revision
  (of the frames: msgr 2.0 or 2.1; 0 on v1).
* ``usage``: resources that a link used until it closed. link, tx_nonces, rx_nonces (0 unless it was secure), and
  the most bytes that it held at once of incomplete frames: handshake_bytes (before the peer had authenticated),
  handshake_limit_bytes, data_bytes, data_limit_bytes.
* ``keepalive``: the application set the keepalive of a session. session, peer, interval_s (0: off), timeout_s
  (silence after which the link is closed; 0: never).
* ``exception``: an exception escaped where none is allowed. where, error, link*, session*.
* ``cut``: by node ``network``: the runner broke the links between two nodes. a, b, at (object: the frame by
  sender, tag and nth, and the byte of it; empty for "now"), detail.
* ``mangle``: by node ``network``: the proxy changed a frame in transit. a, b, at (object: the frame by sender,
  tag, nth, index and offset, and the byte of it, as with ``cut``), what (flip, truncate, insert, drop, duplicate,
  replay, swap, reflect, rewrite; join: only delivered in one piece with the next frame), detail*. Inserted bytes
  follow the frame; of two swapped frames, at is the first.
* ``path``: by node ``network``: a fault on the path from one node to another. a, b (both empty: all paths), fault
  (partition, refuse, slow, and so on; heal), detail*.
* ``leak``: by node ``network``: payload in plain text was seen on a link that must be secure. a, b, detail.
* ``clock``: the runner moved a node's clock. step_s.
* ``operation``: a client's operation on an object. number (unique in the node: incarnation and a count), action
  (invoke; ok; fail: refused, no effect; unknown: no answer, so it may take effect at any time or never; an invoke
  without any of these counts as unknown), verb (write: all data; append; create: exclusively; remove; omap_set;
  read; omap_get), object (POOL/NAME), value* (what an invocation writes, or a read returns: a text, for omap an
  object), error* (of fail and unknown). The action settled stands for all answers on the object up to then, which
  were judged already; node, number and verb are those of the last one. Its points* list the states that the object
  may have then: exists, data, omap, done (node and number of each operation under way that has taken effect),
  created (the objects that operations without an answer created unread, with the latest time at_s) and removed
  (how many removes without an answer have taken effect). Without points the object's later operations cannot be
  judged.
* ``settled``: all records of some links of the process were judged and have left the history; this record is in
  the place of the last one. incarnation, links (their number), sessions (the highest number of a session that has
  ended and left, too), largest (object: by receiver, the size in bytes of the largest message that has left),
  shards (of the process; 0 if all its links are on the home shard).
* ``step``: by node ``scenario``: a line of the scenario's script. verb, args.
* ``expect``: by node ``scenario``: how often an event must be raised at a node in the whole run. of (the node),
  peer, event, count, most* (the upper limit, if it is above ``count``).
* ``process``: an action of the runner on a node's process, or its exit. action (start, stop, kill, exit, freeze,
  thaw), incarnation, addrs* (the node's own addresses as its peers print them, separated by commas), options*
  (object: its Config options other than their defaults).
* ``end``: a node at rest: all faults of the network have ended, and no frame has passed for long enough. registry
  (sessions found by address), dispatch_bytes (held by the application), links (open), queued, sent, timers*
  (pending, but for keepalives), receive_bytes* (of incomplete frames), unwritten_bytes*, throttled* (units held of
  all throttles), arrivals* (messages admitted to the throttles that are incomplete), sockets*. Without ``end``
  records a history is judged for safety only, not for liveness.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from messenger.errors import LocalError
from messenger.files import read_lines, replacing
from toolkit.checks.describe import describe
from toolkit.checks.records import KINDS, REQUIRED, TIME_DIGITS, Record, check_kind, dump_record, parse_record
from toolkit.tables import data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

NETWORK = "network"
"""Name of the writer of ``cut``, ``mangle``, ``path`` and ``leak`` records."""
SCENARIO = "scenario"
"""Name of the writer of ``step`` and ``expect`` records."""
_SHOWN_ROWS = 200
_MOST_BYTES = 1 << 29
_LONGEST_LINE_BYTES = 1 << 20
_MOST_VALUES = 1 << 25
"""Limit for all records together. A value takes some 40 bytes of memory; a record of a message has some 20
values."""


class Omitted(NamedTuple):
    """Frames in the middle of a long capture that are left out of a history."""

    time_s: float
    """Time of the first of them."""
    place: int
    """Number of records before them."""
    frames: int


class History:
    """Records in order of time. Records of one node stand in the order in which it wrote them."""

    __slots__ = ("_last_s", "_rounded_s", "judged_since", "judged_until", "omitted", "records")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records = list(records)
        self.omitted: Omitted | None = None
        """The frames that a history made for a chart lacks; None if it lacks none."""
        self.judged_since = 0
        """Position of the first record that is judged; those before it belong to an earlier part."""
        self.judged_until: int | None = None
        """Position of the first record that is judged with the next part; None if no part follows."""
        self._last_s = self._rounded_s = 0.0

    def append(self, time_s: float, node: str, kind: str, /, **fields: Any) -> None:  # noqa: ANN401 - as JSON
        """Add a record; ``fields`` are those of its kind.

        >>> history = History()
        >>> history.append(0.5, "a", "mark_down", session=1, peer="b")
        >>> len(history)
        1

        Raises:
            LocalError: no such kind, or a field of it is missing.
        """
        self.put(time_s, node, kind, fields)

    def put(self, time_s: float, node: str, kind: str, fields: dict[str, Any]) -> None:
        """Add a record and take over the object ``fields``. Raises as :meth:`append`."""
        known = REQUIRED.get(kind)
        if known is None or not known <= fields.keys():
            missing = [
                name for name, field in check_kind(kind).items() if name not in fields and not field.optional
            ]
            raise LocalError(f"{kind} record of {node} without {', '.join(missing)}")
        if time_s != self._last_s:  # several records in a row have one time, and rounding takes time
            self._last_s, self._rounded_s = time_s, round(time_s, TIME_DIGITS)
        self.records.append(Record(self._rounded_s, node, kind, fields))

    @property
    def judged(self) -> range:
        """The positions of the records that are judged."""
        return range(self.judged_since, len(self.records) if self.judged_until is None else self.judged_until)

    @property
    def is_whole(self) -> bool:
        """True if the history contains every record that was written."""
        return True

    # ---- reading and writing

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a history file of up to 512 MiB and 33,554,432 values, which is some 1.5 million records.

        Raises:
            LocalError: the file cannot be read or is longer, or a line is not a record; names file and line.
        """
        return cls._read(read_lines(path, _MOST_BYTES, _LONGEST_LINE_BYTES, "history"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "history") -> Self:
        """Parse the text of a history file; ``name`` is the file's name in errors.

        Raises:
            LocalError: a line is not a record.
        """
        return cls._read(StringIO(text, newline="\n"), name)

    @classmethod
    def _read(cls, lines: Iterable[str], name: str) -> Self:
        records, values = [], 0
        for number, line in enumerate(lines, 1):
            if line.isspace():
                continue
            values += line.count(",") + 1
            if values > _MOST_VALUES:
                raise LocalError(f"{name}:{number}: more than {_MOST_VALUES:,} values, the limit for a history")
            try:
                records.append(parse_record(line.removesuffix("\n")))
            except LocalError as error:
                if not line.endswith("\n"):
                    break  # the writer was killed while it wrote this line
                raise LocalError(f"{name}:{number}: {error}") from None
        return cls(records)

    def dump(self) -> str:
        """Return the history as the text of a history file.

        Raises:
            LocalError: a record contains a value that is not JSON.
        """
        return "".join(f"{dump_record(record)}\n" for record in self.records)

    def save(self, path: str | Path) -> None:
        """Write a history file atomically, replacing an existing one.

        The file is readable by its owner only, because a history may contain decrypted payload. A symbolic link is
        replaced, not followed.

        Raises:
            LocalError: a record contains a value that is not JSON, or the file cannot be written.
        """
        text = self.dump()
        try:
            with replacing(path) as file:
                file.write(text.encode("ascii"))
        except OSError as error:
            raise LocalError(f"{path}: {error.strerror}") from None

    @classmethod
    def merge(cls, histories: "Iterable[History]") -> Self:
        """Merge the histories of several nodes by time; records of equal time stay in the order given."""
        return cls(merge(*(history.records for history in histories), key=lambda record: record.time_s))

    # ---- looking at parts

    def __eq__(self, other: object) -> bool:
        return self.records == other.records if isinstance(other, History) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # records are appended

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def __repr__(self) -> str:
        return f"<History {len(self)} records of {', '.join(self.nodes) or 'no node'}, {self.duration_s:g} s>"

    def of(self, *kinds: str) -> "History":
        """Return a history of the records of these kinds only."""
        return History(record for record in self.records if record.kind in kinds)

    def node(self, name: str) -> "History":
        """Return a history of one node's records only."""
        return History(record for record in self.records if record.node == name)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes, in order of appearance; without the network and the scenario."""
        names = dict.fromkeys(record.node for record in self.records)
        return [name for name in names if name not in {NETWORK, SCENARIO}]

    @property
    def duration_s(self) -> float:
        """Seconds from the first record to the last."""
        return self.records[-1].time_s - self.records[0].time_s if self.records else 0.0

    # ---- notebooks

    def table(self) -> "DataFrame":
        """Return a table with one row per record and one column per field, in the order of the format."""
        rows = [
            {"time": record.time_s, "node": record.node, "kind": record.kind, **record.fields}
            for record in self.records
        ]
        kinds = {record.kind for record in self.records}
        known = [name for kind in KINDS if kind in kinds for name in KINDS[kind]]
        present = {name for row in rows for name in row}
        head = ["time", "node", "kind"]
        order = head + [name for name in dict.fromkeys(known) if name in present]
        table = data_frame(rows, columns=order + sorted(present - set(order)))
        return table.convert_dtypes()  # whole numbers stay whole where other kinds lack the field

    def _repr_html_(self) -> str:
        head = "<tr><th>time</th><th>node</th><th>kind</th><th style='text-align:left'>what</th></tr>"
        rows = []
        for record in self.records[:_SHOWN_ROWS]:
            cells = (f"{record.time_s:.6f}", record.node, record.kind, describe(record))
            rows.append(
                "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in cells) + "</tr>"
            )
        more = len(self) - _SHOWN_ROWS
        rest = f"<p>… and {more:,} more records</p>" if more > 0 else ""
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{head}{''.join(rows)}</table>{rest}"
