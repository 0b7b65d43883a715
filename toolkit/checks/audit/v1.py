"""Rules about the handshake of msgr v1 (docs/protocol.md §3)."""

from toolkit.checks.audit import data
from toolkit.checks.audit.addresses import order
from toolkit.checks.audit.rule import Rule, Side
from toolkit.checks.audit.talk import Fields, Judges, Talk, number
from toolkit.checks.audit.v2 import FLAGS, RETRIED, RETRY, WAIT_RACE

_LOSSY = 1
_PUBLIC = {24, 32, 15, 0}
"""Protocol numbers between different types of entities."""
_INTERNAL = {"mon": 13, "osd": 10, "mds": 36}
"""Protocol numbers between entities of one type; 0 for all other types."""
_BADPROTOVER, _FINAL = "BADPROTOVER", ("READY", "SEQ")

VERSION = Rule(
    "v1_protocol_version",
    "3.1",
    Side.BOTH,
    "The protocol_version is that of the acceptor's type, or between equal types their internal one; a reply "
    "other than BADPROTOVER has that of CONNECT.",
)
GRANT = Rule("v1_connect_seq", "3.4", Side.ACCEPTOR, "READY and SEQ have the connect_seq of CONNECT plus one.")
REPLY_FEATURES = Rule(
    "v1_reply_features",
    "3.1",
    Side.ACCEPTOR,
    "A reply before the last one has all features of CONNECT that the last reply shows as supported.",
)
SAME_SEQS = Rule(
    "v1_challenge",
    "3.3",
    Side.DIALLER,
    "The CONNECT after CHALLENGE_AUTHORIZER has the same global_seq and connect_seq.",
)
RESET = Rule(
    "v1_reset",
    "3.4 3.5",
    Side.BOTH,
    "RESETSESSION answers only a connect_seq above 0; the CONNECT after it has 0.",
)
RULES = (VERSION, GRANT, REPLY_FEATURES, SAME_SEQS, RESET)


def _connect(talk: Talk, fields: Fields) -> None:
    version, kind = number(fields, "protocol_version"), fields.get("host_type")
    if version is not None and isinstance(kind, str):
        holds = version in _PUBLIC or version == _INTERNAL.get(kind)
        talk.judge(VERSION, holds, "CONNECT of {} has protocol_version {}", kind, version)
    flags = number(fields, "flags")
    if flags is not None:
        talk.judge(FLAGS, not flags & ~_LOSSY, "CONNECT has flags {:#x}", flags)
    before, reply = talk.sent.get("CONNECT"), talk.received.get("CONNECT_REPLY")
    seqs, last = _seqs(fields), _seqs(before or {})
    if reply is None or seqs is None or last is None:
        return
    asked = _seqs(reply)
    match reply.get("tag"):
        case "CHALLENGE_AUTHORIZER":
            text = "global_seq and connect_seq {} after a challenge to {}"
            talk.judge(SAME_SEQS, seqs == last, text, seqs, last)
        case "RESETSESSION":
            talk.judge(RESET, not seqs[1], "connect_seq {} after RESETSESSION", seqs[1])
        case "RETRY_SESSION" if asked is not None:
            talk.judge(RETRIED, seqs[1] == asked[1], "connect_seq {} after RETRY_SESSION of {}", seqs[1], asked[1])
        case "RETRY_GLOBAL" if asked is not None:
            talk.judge(RETRIED, seqs[0] > asked[0], "global_seq {} after RETRY_GLOBAL of {}", seqs[0], asked[0])


def _seqs(fields: Fields) -> tuple[int, int] | None:
    """Return global_seq and connect_seq; None if one is missing."""
    global_seq, connect_seq = number(fields, "global_seq"), number(fields, "connect_seq")
    return None if global_seq is None or connect_seq is None else (global_seq, connect_seq)


def _reply(talk: Talk, fields: Fields) -> None:
    tag = fields.get("tag")
    asked, earlier = talk.received.get("CONNECT", {}), talk.sent.get("CONNECT_REPLY")
    version, due = number(fields, "protocol_version"), number(asked, "protocol_version")
    if version is not None and due is not None:
        holds = (version == due) is not (tag == _BADPROTOVER)
        talk.judge(VERSION, holds, "{} has protocol_version {}, CONNECT has {}", tag, version, due)
    flags = number(fields, "flags")
    if flags is not None:
        talk.judge(FLAGS, not flags & ~_LOSSY, "{} has flags {:#x}", tag, flags)
    seqs, connect = _seqs(fields), _seqs(asked)
    if seqs is not None and connect is not None:
        if tag in _FINAL:
            text = "{} has connect_seq {}, CONNECT has {}"
            talk.judge(GRANT, seqs[1] == connect[1] + 1, text, tag, seqs[1], connect[1])
        elif tag == "RETRY_SESSION":
            text = "RETRY_SESSION of connect_seq {} has {}"
            talk.judge(RETRY, seqs[1] > connect[1], text, connect[1], seqs[1])
        elif tag == "RESETSESSION":
            talk.judge(RESET, connect[1] > 0, "RESETSESSION answers connect_seq {}", connect[1])
    if tag in _FINAL:
        _granted(talk, fields, earlier, asked)
    elif tag == "WAIT":
        _wait(talk)


def _granted(talk: Talk, fields: Fields, earlier: Fields | None, asked: Fields) -> None:
    """Judge the last reply, which shows all features that the acceptor supports."""
    flags = number(fields, "flags")
    talk.lossy = None if flags is None else bool(flags & _LOSSY)
    supported, offered = number(fields, "features"), number(asked, "features")
    before = None if earlier is None else number(earlier, "features")
    if supported is not None and offered is not None and before is not None:
        missing = offered & supported & ~before
        text = "the reply before {} lacks the features {:#x}, which both sides have"
        talk.judge(REPLY_FEATURES, not missing, text, fields.get("tag"), missing)


def _wait(talk: Talk) -> None:
    here = talk.sent.get("IDENTIFY", {}).get("server_addr")
    there = talk.received.get("IDENTIFY", {}).get("client_addr")
    if isinstance(here, str) and isinstance(there, str) and not talk.crowded:
        lower = order(there, "v1") < order(here, "v1")
        talk.judge(WAIT_RACE, not lower, "WAIT to {}, whose address is lower than {}", there, here)


def _reply_received(talk: Talk, fields: Fields) -> None:
    if fields.get("tag") in _FINAL:
        flags = number(fields, "flags")
        talk.lossy = None if flags is None else bool(flags & _LOSSY)
        if fields.get("tag") == "READY" and talk.memory is not None:
            talk.memory.begin(talk.position)


def _seq_sent(talk: Talk, fields: Fields) -> None:
    in_seq = number(fields, "seq")
    if in_seq is None:
        return
    if talk.memory is not None:  # not judged: frames do not show every reset of a v1 session
        talk.memory.received = talk.memory.acked = in_seq
    known = number(talk.received.get("SEQ", {}), "seq")
    data.begin(talk, in_seq, None if known is None else known + 1, replays=True)


def _seq_received(talk: Talk, fields: Fields) -> None:
    in_seq = number(fields, "seq")
    if in_seq is not None:
        talk.first_seq, talk.replays = in_seq + 1, True


SENT: Judges = {"CONNECT": _connect, "CONNECT_REPLY": _reply, "SEQ": _seq_sent}
RECEIVED: Judges = {"CONNECT_REPLY": _reply_received, "SEQ": _seq_received}
