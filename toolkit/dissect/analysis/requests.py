"""Requests one by one: when each was sent, over which links, and when and how it was answered."""

from dataclasses import dataclass, field

from toolkit.dissect.analysis.messages import Transmission
from toolkit.dissect.frames import DecodedFrame, MessageInfo

_MOST = 1 << 20
"""Number of requests that are kept; later ones are only counted."""


COLUMNS = (
    *("tid", "request", "object", "pg", "op", "session", "client", "server", "sent_s", "replied_s", "latency_ms"),
    *("sent", "streams", "frames", "seq", "reply", "result"),
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
    seqs: list[int] = field(default_factory=list)
    sent: list[Transmission] = field(default_factory=list)
    """All its transmissions; more than one after a reconnect or a retry."""
    obj: str = ""
    """Name of the object; empty if the request is not about one."""
    pg: str = ""
    ops: list[str] = field(default_factory=list)
    reply: str = ""
    replied: Transmission | None = None
    result: int | None = None
    """Return code of the reply, if its type has one and it decodes."""

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
            "sent": len(self.sent),
            "streams": list(dict.fromkeys(sent.stream for sent in self.sent)),
            "frames": [sent.frame for sent in self.sent] + ([self.replied.frame] if self.replied else []),
            "seq": self.seqs[0],
            "reply": self.reply or None,
            "result": self.result,
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
        """By client name, message name and tid, which a request resent to another server keeps."""

    def take(
        self,
        session: int,
        side: int,
        names: tuple[str, str],
        frame: DecodedFrame,
        message: MessageInfo,
        where: Transmission,
    ) -> None:
        """Add a message.

        Args:
            session: number of the session.
            side: side of the sender, 0 or 1.
            names: names of sender and receiver.
            frame: frame of the message.
            message: header of the message.
            where: time and place of the transmission.
        """
        if not message.tid:
            return
        sender, receiver = names
        asked = self._asked.get((session, 1 - side, message.tid))
        if asked is not None and asked.name != message.name:
            if asked.replied is None:
                self._answer(asked, frame, message, where)
            return
        again = self._kinds.get((sender, message.name, message.tid))
        if again is not None and again.replied is None:
            again.sent.append(where)
            again.seqs.append(message.seq)
            again.server = receiver
            self._asked[session, side, message.tid] = again
        elif len(self.all) >= _MOST:
            self.left_out += 1
        else:
            request = Request(session, sender, receiver, message.tid, message.name, [message.seq], [where])
            _describe(request, frame)
            self._asked[session, side, message.tid] = request
            self._kinds[sender, message.name, message.tid] = request
            self.all.append(request)

    @staticmethod
    def _answer(asked: Request, frame: DecodedFrame, message: MessageInfo, where: Transmission) -> None:
        asked.reply, asked.replied = message.name, where
        fields = frame.fields
        result = fields.get("result", fields.get("r"))
        asked.result = result if isinstance(result, int) else None


def _describe(request: Request, frame: DecodedFrame) -> None:
    """Set object, placement group and operations, as far as the payload decodes."""
    fields = frame.fields
    request.obj, request.pg = (str(fields.get(name, "") or "") for name in ("oid", "pgid"))
    poid = fields.get("poid")
    if isinstance(poid, dict):
        request.obj = str(poid.get("oid") or "")
    ops = fields.get("ops")
    if isinstance(ops, list):
        request.ops = [str(op.get("code")) if isinstance(op, dict) else str(op) for op in ops]
