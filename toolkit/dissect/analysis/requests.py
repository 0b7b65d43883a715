"""Requests one by one: when each was sent, over which links, what it waited for, and how it was answered."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from sys import intern

from toolkit.dissect.analysis.messages import Outbox, Transmission
from toolkit.dissect.frames import DecodedFrame, MessageInfo

_MOST = 1 << 20
"""Number of requests that are kept; later ones are only counted."""


COLUMNS = (
    *("tid", "request", "object", "pg", "op", "session", "client", "server", "sent_s", "replied_s", "latency_ms"),
    *("frame", "reply_frame", "sent", "streams", "frames", "seq", "reply", "result"),
    *("ahead", "resend_ms", "receipt_ms", "answer_ms", "waited_for"),
)
"""Columns of a row."""
NAMES = ("name", "latency_s", "resent")
"""Further names in filters: the request's type, its latency in seconds, and whether it was sent more than once."""


@dataclass(slots=True, eq=False)
class Request:
    """One request, however often it was sent, and its reply."""

    session: int
    """Number of the session in which it was sent first."""
    client: str
    server: str
    tid: int
    name: str
    """Name of the message's type."""
    seqs: tuple[int, ...]
    sent: tuple[Transmission, ...]
    """All its transmissions; more than one after a reconnect or a retry."""
    obj: str = ""
    """Name of the object; empty if the request is not about one."""
    pg: str = ""
    ops: tuple[str, ...] = ()
    reply: str = ""
    replied: Transmission | None = None
    result: int | None = None
    """Return code of the reply, if its type has one and it decodes."""
    ahead: int = 0
    """Number of requests of its type that its client had sent before in the session, without a reply yet."""
    outbox: Outbox | None = None
    """The messages of the sender in the session of the last transmission, with the receiver's acknowledgements."""

    @property
    def waits(self) -> "Waits":
        """What it waited for."""
        return Waits.of(self)

    @property
    def latency_ns(self) -> int | None:
        """Time from the first complete request to the complete reply, in nanoseconds; None without a reply."""
        return None if self.replied is None else self.replied.time_ns - self.sent[0].time_ns

    def asked(self, began_ns: int) -> dict[str, object]:
        """Return the values that a filter may use: the row and the :data:`NAMES`."""
        row, latency_ns = self.row(began_ns), self.latency_ns
        more = (self.name, None if latency_ns is None else latency_ns / 1e9, len(self.sent) > 1)
        return row | dict(zip(NAMES, more, strict=True))

    def row(self, began_ns: int) -> dict[str, object]:
        """Return the row as JSON values; times in seconds since ``began_ns``, the latency in milliseconds."""
        latency_ns = self.latency_ns
        return {
            "tid": self.tid,
            "request": self.name,
            "object": self.obj or None,
            "pg": self.pg or None,
            "op": ",".join(self.ops) or None,
            "session": self.session,
            "client": self.client,
            "server": self.server,
            "sent_s": (self.sent[0].time_ns - began_ns) / 1e9,
            "replied_s": None if self.replied is None else (self.replied.time_ns - began_ns) / 1e9,
            "latency_ms": None if latency_ns is None else latency_ns / 1e6,
            "frame": self.sent[0].frame,
            "reply_frame": None if self.replied is None else self.replied.frame,
            "sent": len(self.sent),
            "streams": list(dict.fromkeys(sent.stream for sent in self.sent)),
            "frames": [sent.frame for sent in self.sent] + ([self.replied.frame] if self.replied else []),
            "seq": self.seqs[0],
            "reply": self.reply or None,
            "result": self.result,
            "ahead": self.ahead,
            **self.waits.row(),
        }


@dataclass(frozen=True, slots=True)
class Waits:
    """The parts of a request's latency in nanoseconds; None for a part of which the capture shows no end."""

    resend_ns: int
    """From the first transmission to the last: it was lost with its link, or its client asked another server."""
    receipt_ns: int | None
    """From the last transmission to its ACK frame: until the receiver's messenger had read it. Not known if there
    was none before the reply: lossy sessions send no ACK (docs/protocol.md §3.6)."""
    answer_ns: int | None
    """From then to the reply."""

    @classmethod
    def of(cls, request: Request) -> "Waits":
        """Return the parts of a request's latency."""
        last = request.sent[-1].time_ns
        reply = None if request.replied is None else request.replied.time_ns
        ack = request.outbox.receipt_of(request.seqs[-1]) if request.outbox is not None else None
        acked = None if ack is None or (reply is not None and ack.time_ns >= reply) else max(ack.time_ns, last)
        answer = None if reply is None else reply - (last if acked is None else acked)
        return cls(last - request.sent[0].time_ns, None if acked is None else acked - last, answer)

    @property
    def longest(self) -> str:
        """Name of the longest part; of a request without a reply, the part in which it is."""
        if self.answer_ns is None:
            return "receipt" if self.receipt_ns is None else "answer"
        parts = {"resend": self.resend_ns, "receipt": self.receipt_ns or 0, "answer": self.answer_ns}
        return max(parts, key=parts.__getitem__)

    def row(self) -> dict[str, object]:
        """Return the columns of these parts, in milliseconds."""
        parts = {"resend_ms": self.resend_ns, "receipt_ms": self.receipt_ns, "answer_ms": self.answer_ns}
        return {name: None if ns is None else ns / 1e6 for name, ns in parts.items()} | {
            "waited_for": self.longest
        }


class Requests:
    """Collects the requests. A request has a tid; its reply is of another type with the same tid."""

    def __init__(self) -> None:
        self.all: list[Request] = []
        """In the order of the first transmission."""
        self.left_out = 0
        """Number of requests beyond the limit."""
        self._asked: dict[tuple[int, int, int], Request] = {}
        """By session, the client's side of it, and tid; not by name, which may become known between request and
        reply."""
        self._kinds: dict[tuple[str, str, int], Request] = {}
        """Requests without a reply by client name, message name and tid, which a request resent to another server
        keeps."""
        self._unanswered: Counter[tuple[int, str, str]] = Counter()
        """By session, client and message name."""
        self._by_object: dict[str, list[Request]] | None = None
        """Made when it is first needed, after the last frame."""

    def take(
        self,
        session: int,
        side: int,
        names: tuple[str, str],
        frame: DecodedFrame,
        message: MessageInfo,
        where: Transmission,
        outbox: Outbox,
    ) -> None:
        """Add a message.

        Args:
            session: number of the session.
            side: side of the sender, 0 or 1.
            names: names of sender and receiver.
            frame: frame of the message.
            message: header of the message.
            where: time and place of the transmission.
            outbox: the sender's messages in the session.
        """
        if not message.tid:
            return
        sender, receiver = names
        asked = self._asked.get((session, 1 - side, message.tid))
        if asked is not None and asked.name != message.name:
            if asked.replied is None:
                self._answer(asked, frame, message, where)
                self._unanswered[asked.session, asked.client, asked.name] -= 1
                del self._kinds[asked.client, asked.name, asked.tid]
            return
        again = self._kinds.get((sender, message.name, message.tid))
        if again is not None:
            again.sent += (where,)
            again.seqs += (message.seq,)
            again.server = receiver
            again.outbox = outbox
            self._asked[session, side, message.tid] = again
        elif len(self.all) >= _MOST:
            self.left_out += 1
        else:
            request = Request(session, sender, receiver, message.tid, message.name, (message.seq,), (where,))
            _describe(request, frame)
            like = session, sender, message.name
            request.ahead, request.outbox = self._unanswered[like], outbox
            self._by_object = None
            self._unanswered[like] += 1
            self._asked[session, side, message.tid] = request
            self._kinds[sender, message.name, message.tid] = request
            self.all.append(request)

    def below(self, request: Request) -> Request | None:
        """Return the slowest request about the same object that the server sent meanwhile, as a primary OSD does.

        None if there is none, and if this request is not about an object or has no reply.
        """
        if self._by_object is None:
            self._by_object = defaultdict(list)
            for each in self.all:
                self._by_object[each.obj].append(each)
        if not request.obj or request.replied is None:
            return None
        begin_ns, end_ns = request.sent[-1].time_ns, request.replied.time_ns
        during = [
            each
            for each in self._by_object[request.obj]
            if each.client == request.server
            and begin_ns <= each.sent[0].time_ns
            and each.replied is not None
            and each.replied.time_ns <= end_ns
        ]
        return max(during, key=lambda each: each.latency_ns or 0, default=None)

    @staticmethod
    def _answer(asked: Request, frame: DecodedFrame, message: MessageInfo, where: Transmission) -> None:
        asked.reply, asked.replied = message.name, where
        fields = frame.fields
        result = fields.get("result", fields.get("r"))
        asked.result = result if isinstance(result, int) else None


def _describe(request: Request, frame: DecodedFrame) -> None:
    """Set object, placement group and operations, as far as the payload decodes. Equal texts are one object."""
    fields = frame.fields
    request.obj, request.pg = (intern(str(fields.get(name, "") or "")) for name in ("oid", "pgid"))
    poid = fields.get("poid")
    if isinstance(poid, dict):
        request.obj = intern(str(poid.get("oid") or ""))
    ops = fields.get("ops")
    if isinstance(ops, list):
        codes = (str(op.get("code")) if isinstance(op, dict) else str(op) for op in ops)
        request.ops = tuple(map(intern, codes))
