"""Rules about the handshake of msgr v2 (docs/protocol.md §4)."""

from toolkit.checks.audit import data
from toolkit.checks.audit.addresses import order, vector
from toolkit.checks.audit.rule import Rule, Side
from toolkit.checks.audit.talk import Fields, Judge, Judges, Talk, number, numbers

_LOSSY = 1
_RESERVED = 1 << 62
_COMPRESSION = 2
"""The banner's feature bit."""
_NONE, _CRC = 1, 1
"""Authentication method none, and crc, the only mode that it allows."""

BANNER = Rule("banner_features", "4.2", Side.BOTH, "A banner requires only msgr2 features that it supports.")
AUTH_MODE = Rule(
    "auth_mode",
    "4.7",
    Side.ACCEPTOR,
    "The mode in AUTH_DONE is one of those preferred in AUTH_REQUEST; with method none it is crc.",
)
AUTH_REFUSAL = Rule(
    "auth_refusal",
    "4.7",
    Side.ACCEPTOR,
    "AUTH_BAD_METHOD names the method of the refused AUTH_REQUEST, and its result is negative.",
)
AUTH_RETRY = Rule(
    "auth_retry",
    "4.7",
    Side.DIALLER,
    "The AUTH_REQUEST after AUTH_BAD_METHOD has another method, which the acceptor allows.",
)
COMPRESSION_ASKED = Rule(
    "compression_asked",
    "4.10",
    Side.BOTH,
    "COMPRESSION_REQUEST and COMPRESSION_DONE are sent only if both banners have COMPRESSION.",
)
COMPRESSION_AGREED = Rule(
    "compression_agreed",
    "4.10",
    Side.ACCEPTOR,
    "If COMPRESSION_DONE agrees to compress, its algorithm is listed in COMPRESSION_REQUEST; otherwise it names "
    "none.",
)
DIALLED = Rule(
    "dialled_address",
    "4.3",
    Side.DIALLER,
    "The target_addr of CLIENT_IDENT is the peer_addr of the sender's HELLO.",
)
TARGET = Rule(
    "target_address",
    "4.9",
    Side.ACCEPTOR,
    "The addresses of SERVER_IDENT contain the target_addr of CLIENT_IDENT.",
)
FEATURES = Rule(
    "features",
    "2.2 4.9",
    Side.BOTH,
    "CLIENT_IDENT and SERVER_IDENT never advertise bit 62.",
)
FEATURES_MET = Rule(
    "features_met",
    "2.4",
    Side.ACCEPTOR,
    "SERVER_IDENT answers only a client that supports all features it requires.",
)
FEATURES_MISSING = Rule(
    "features_missing",
    "2.4 4.9",
    Side.ACCEPTOR,
    "IDENT_MISSING_FEATURES names at least one feature, and none that the client supports.",
)
FLAGS = Rule("flags", "3.1 4.3", Side.BOTH, "LOSSY is the only bit that may be set in the flags of a handshake.")
CLIENT_COOKIE = Rule(
    "client_cookie",
    "4.9",
    Side.DIALLER,
    "CLIENT_IDENT has a cookie if it is lossless, and none if it is lossy. (Crimson always sends one; a dialler "
    "that may be crimson is not judged by this.)",
)
SERVER_COOKIE = Rule(
    "server_cookie", "4.9", Side.ACCEPTOR, "SERVER_IDENT has a cookie if it is lossless, and none if it is lossy."
)
IDENT_ORDER = Rule(
    "ident_order",
    "4.9",
    Side.DIALLER,
    "SESSION_RECONNECT is sent first, or after SESSION_RETRY or SESSION_RETRY_GLOBAL; CLIENT_IDENT first, or "
    "after SESSION_RESET or IDENT_MISSING_FEATURES.",
)
ANSWERS = Rule(
    "session_answers",
    "4.9",
    Side.ACCEPTOR,
    "SESSION_RESET, SESSION_RETRY, SESSION_RETRY_GLOBAL and SESSION_RECONNECT_OK answer SESSION_RECONNECT; "
    "SERVER_IDENT and IDENT_MISSING_FEATURES answer CLIENT_IDENT; WAIT answers either.",
)
RETRY = Rule(
    "retry",
    "4.9",
    Side.ACCEPTOR,
    "SESSION_RETRY has a higher connect_seq than the request that it refuses.",
)
RETRIED = Rule(
    "retried",
    "4.9",
    Side.DIALLER,
    "After SESSION_RETRY the connect_seq is that of the answer plus one; after SESSION_RETRY_GLOBAL the "
    "global_seq is higher than that of the answer.",
)
WAIT_RACE = Rule(
    "wait_race",
    "4.9",
    Side.ACCEPTOR,
    "WAIT is sent only to a dialler whose address is not the lower one. (Not judged while another link of the "
    "dialler is open, which may be taking over the session.)",
)
RULES = (
    *(BANNER, AUTH_MODE, AUTH_REFUSAL, AUTH_RETRY, COMPRESSION_ASKED, COMPRESSION_AGREED, DIALLED, TARGET),
    *(FEATURES, FEATURES_MET, FEATURES_MISSING, FLAGS, CLIENT_COOKIE, SERVER_COOKIE, IDENT_ORDER, ANSWERS),
    *(RETRY, RETRIED, WAIT_RACE),
)
_IDENT, _RECONNECT = "CLIENT_IDENT", "SESSION_RECONNECT"
_BEFORE = {
    _RECONNECT: {"SESSION_RETRY", "SESSION_RETRY_GLOBAL"},
    _IDENT: {"SESSION_RESET", "IDENT_MISSING_FEATURES"},
}
"""The answers after which a connector may send another request on the link."""


def _banner(talk: Talk, fields: Fields) -> None:
    supported, required = number(fields, "supported"), number(fields, "required")
    if supported is not None and required is not None:
        talk.judge(BANNER, not required & ~supported, "required {:#x}, supported {:#x}", required, supported)


def _auth_request(talk: Talk, fields: Fields) -> None:
    refusal = talk.received.get("AUTH_BAD_METHOD")
    method = number(fields, "method")
    if refusal is None or method is None:
        return
    allowed = numbers(refusal, "allowed_methods") or []
    text = "method {} after a refusal of {} that allows {}"
    refused = number(refusal, "method")
    talk.judge(AUTH_RETRY, method != refused and method in allowed, text, method, refused, allowed)


def _auth_done(talk: Talk, fields: Fields) -> None:
    request, mode = talk.received.get("AUTH_REQUEST"), number(fields, "con_mode")
    modes = None if request is None else numbers(request, "preferred_modes")
    if request is None or mode is None or modes is None:
        return
    holds = mode in modes and (mode == _CRC or number(request, "method") != _NONE)
    text = "mode {} is granted; the dialler prefers {} by method {}"
    talk.judge(AUTH_MODE, holds, text, mode, modes, request.get("method"))


def _auth_bad_method(talk: Talk, fields: Fields) -> None:
    request, result = talk.received.get("AUTH_REQUEST"), number(fields, "result")
    if request is not None and result is not None:
        refused, method = request.get("method"), fields.get("method")
        text = "method {} is refused with {}, the dialler asked for {}"
        talk.judge(AUTH_REFUSAL, method == refused and result < 0, text, method, result, refused)


def _compression(talk: Talk, tag: str) -> None:
    banners = [end.get("BANNER", {}) for end in (talk.sent, talk.received)]
    supported = [number(banner, "supported") for banner in banners]
    if None not in supported:
        holds = all(each is not None and each & _COMPRESSION for each in supported)
        talk.judge(COMPRESSION_ASKED, holds, "{}, and the banners support {:#x} and {:#x}", tag, *supported)


def _compression_request(talk: Talk, _fields: Fields) -> None:
    _compression(talk, "COMPRESSION_REQUEST")


def _compression_done(talk: Talk, fields: Fields) -> None:
    _compression(talk, "COMPRESSION_DONE")
    request, method = talk.received.get("COMPRESSION_REQUEST"), number(fields, "method")
    listed = None if request is None else numbers(request, "methods")
    if request is None or method is None or listed is None:
        return
    asked = request.get("is_compress")
    holds = bool(asked and method in listed) if fields.get("is_compress") else method == 0
    text = "is_compress {} by method {}, the dialler asked for {} by {}"
    talk.judge(COMPRESSION_AGREED, holds, text, fields.get("is_compress"), method, asked, listed)


def _ident(talk: Talk, fields: Fields, tag: str) -> None:
    """Judge the fields that CLIENT_IDENT and SERVER_IDENT have in common."""
    supported = number(fields, "features_supported")
    if supported is not None:
        talk.judge(FEATURES, not supported & _RESERVED, "{} supports {:#x}", tag, supported)
    flags = number(fields, "flags")
    if flags is not None:
        talk.judge(FLAGS, not flags & ~_LOSSY, "{} has flags {:#x}", tag, flags)


def _request(talk: Talk, tag: str) -> None:
    """Judge the order of a connector's requests."""
    before = talk.request
    if before:
        answer = next((each for each in _BEFORE[tag] if each in talk.received), None)
        holds = answer is not None and tag in {before, _IDENT}
        talk.judge(IDENT_ORDER, holds, "{} is sent after {}, and no answer asks for it", tag, before)
    else:
        talk.judge(IDENT_ORDER, holds=True, text="")
    talk.request = tag


def _client_ident(talk: Talk, fields: Fields) -> None:
    _ident(talk, fields, _IDENT)
    _request(talk, _IDENT)
    cookie, flags = number(fields, "client_cookie"), number(fields, "flags")
    if cookie is not None and flags is not None:
        lossy = bool(flags & _LOSSY)
        classic = (number(talk.sent.get("BANNER", {}), "supported") or 0) & _COMPRESSION
        if not lossy or not cookie or classic:
            text = "CLIENT_IDENT of a {} session has {} client_cookie"
            words = ("lossy", "a") if lossy else ("lossless", "no")
            talk.judge(CLIENT_COOKIE, lossy is not bool(cookie), text, *words)
    dialled, target = talk.sent.get("HELLO", {}).get("peer_addr"), fields.get("target_addr")
    if isinstance(dialled, str) and isinstance(target, str):
        text = "CLIENT_IDENT targets {}, HELLO named {}"
        talk.judge(DIALLED, dialled == target, text, target, dialled)


def _reconnect(talk: Talk, fields: Fields) -> None:
    before = talk.sent.get(_RECONNECT)
    _request(talk, _RECONNECT)
    in_seq = number(fields, "msg_seq")
    if in_seq is not None:
        data.announce(talk, in_seq, _RECONNECT)
    if before is None:
        return
    for answer, name, more in (("SESSION_RETRY", "connect_seq", 1), ("SESSION_RETRY_GLOBAL", "global_seq", 0)):
        asked, value = number(talk.received.get(answer, {}), name), number(fields, name)
        if asked is not None and value is not None:
            holds = value == asked + 1 if more else value > asked
            talk.judge(RETRIED, holds, "{} {} after a {} of {}", name, value, answer, asked)


def _answer(talk: Talk, tag: str, *requests: str) -> Fields:
    """Check that a frame of an acceptor answers a pending request; returns the fields of that request."""
    asked = talk.request
    if asked or not talk.comes_soon(requests):
        talk.judge(ANSWERS, asked in requests, "{} answers {}", tag, asked or "nothing")
    talk.request = ""
    return talk.received.get(asked, {})


def _server_ident(talk: Talk, fields: Fields) -> None:
    _ident(talk, fields, "SERVER_IDENT")
    asked = _answer(talk, "SERVER_IDENT", _IDENT)
    target, addrs = asked.get("target_addr"), fields.get("addrs")
    if isinstance(target, str) and isinstance(addrs, str):
        talk.judge(TARGET, target in vector(addrs), "SERVER_IDENT has {}, the dialler targets {}", addrs, target)
    supported, required = number(asked, "features_supported"), number(fields, "features_required")
    if supported is not None and required is not None:
        text = "SERVER_IDENT requires {:#x}, the client supports {:#x}"
        talk.judge(FEATURES_MET, not required & ~supported, text, required, supported)
    cookie, flags = number(fields, "server_cookie"), number(fields, "flags")
    if cookie is not None and flags is not None:
        lossy = bool(flags & _LOSSY)
        text = "SERVER_IDENT of a {} session has {} server_cookie"
        talk.judge(
            SERVER_COOKIE, lossy is not bool(cookie), text, *("lossy", "a") if lossy else ("lossless", "no")
        )
    client = (talk.link.key.node, asked.get("addrs"))
    key = talk.link.key
    replaced = talk.earlier.served.setdefault(client, key) != key and not talk.is_ours
    _new_session(talk, fields, known=not replaced)


def _new_session(talk: Talk, fields: Fields, *, known: bool) -> None:
    """Begin a session at SERVER_IDENT; an end that requeued messages of an earlier one may not start at seq 1."""
    flags = number(fields, "flags")
    talk.lossy = None if flags is None else bool(flags & _LOSSY)
    if talk.memory is not None:
        talk.memory.begin(talk.position)
    data.begin(talk, 0, 1 if known else None, replays=False)


def _missing_features(talk: Talk, fields: Fields) -> None:
    asked = _answer(talk, "IDENT_MISSING_FEATURES", _IDENT)
    missing, supported = number(fields, "features"), number(asked, "features_supported")
    if missing is not None and supported is not None:
        text = "{:#x} is missing, the client supports {:#x}"
        talk.judge(FEATURES_MISSING, bool(missing) and not missing & supported, text, missing, supported)


def _reset(talk: Talk, _fields: Fields) -> None:
    _answer(talk, "SESSION_RESET", _RECONNECT)


def _retry(talk: Talk, fields: Fields) -> None:
    asked = number(_answer(talk, "SESSION_RETRY", _RECONNECT), "connect_seq")
    least = number(fields, "connect_seq")
    if asked is not None and least is not None:
        talk.judge(RETRY, least > asked, "SESSION_RETRY of connect_seq {} has {}", asked, least)


def _retry_global(talk: Talk, _fields: Fields) -> None:
    # Its global_seq may be lower: while another link takes over the session, any global_seq is refused.
    _answer(talk, "SESSION_RETRY_GLOBAL", _RECONNECT)


def _wait(talk: Talk, _fields: Fields) -> None:
    asked = _answer(talk, "WAIT", _IDENT, _RECONNECT)
    here, there = talk.received.get("HELLO", {}).get("peer_addr"), asked.get("addrs")
    if isinstance(here, str) and isinstance(there, str) and not talk.crowded:
        lower = order(there, "v2") < order(here, "v2")
        talk.judge(WAIT_RACE, not lower, "WAIT to {}, whose address is lower than {}", there, here)


def _reconnect_ok(talk: Talk, fields: Fields) -> None:
    asked = number(_answer(talk, "SESSION_RECONNECT_OK", _RECONNECT), "msg_seq")
    in_seq = number(fields, "msg_seq")
    talk.lossy = False
    if in_seq is not None and asked is not None:
        data.announce(talk, in_seq, "SESSION_RECONNECT_OK")
        data.begin(talk, in_seq, asked + 1, replays=True)


# ---- received frames


def _asked_by(tag: str) -> Judge:
    def asked(talk: Talk, _fields: Fields) -> None:
        talk.request = tag

    return asked


def _server_ident_received(talk: Talk, fields: Fields) -> None:
    partly = talk.received.get("SESSION_RESET", {}).get("full") is False
    _new_session(talk, fields, known=not partly)


def _reconnect_ok_received(talk: Talk, fields: Fields) -> None:
    in_seq, ours = number(fields, "msg_seq"), number(talk.sent.get(_RECONNECT, {}), "msg_seq")
    talk.lossy = False
    if in_seq is not None and ours is not None:
        data.begin(talk, ours, in_seq + 1, replays=True)


SENT: Judges = {
    "BANNER": _banner,
    "AUTH_REQUEST": _auth_request,
    "AUTH_DONE": _auth_done,
    "AUTH_BAD_METHOD": _auth_bad_method,
    "COMPRESSION_REQUEST": _compression_request,
    "COMPRESSION_DONE": _compression_done,
    "CLIENT_IDENT": _client_ident,
    "SESSION_RECONNECT": _reconnect,
    "SERVER_IDENT": _server_ident,
    "IDENT_MISSING_FEATURES": _missing_features,
    "SESSION_RESET": _reset,
    "SESSION_RETRY": _retry,
    "SESSION_RETRY_GLOBAL": _retry_global,
    "SESSION_RECONNECT_OK": _reconnect_ok,
    "WAIT": _wait,
}
RECEIVED: Judges = {
    "CLIENT_IDENT": _asked_by("CLIENT_IDENT"),
    "SESSION_RECONNECT": _asked_by("SESSION_RECONNECT"),
    "SERVER_IDENT": _server_ident_received,
    "SESSION_RECONNECT_OK": _reconnect_ok_received,
}
