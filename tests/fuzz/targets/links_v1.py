"""A whole link of msgr v1, in either role and at any point of its life, with a peer that sends arbitrary bytes.

An input is three bytes of options and a script. The first byte chooses role, authentication and how many proper
steps the peer takes before the script; the second the policy, a small dispatch throttle, an application that
keeps its messages, and whether an interceptor stops the link (two more bytes then); the third the features of the
peer.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from messenger.denc.entity import EntityType
from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.v1.framing import FOOTER, HEADER
from messenger.v1.wire import REPLY_TAGS, Connect, ConnectReply, Tag
from tests.fuzz.seeds import captured_messages
from tests.fuzz.talk import (
    LIMITS,
    Cutting,
    HoardingNode,
    Operation,
    Stop,
    Talk,
    meet_again,
    raw,
    run_every_way,
    send,
    skip_step,
    step,
    throttling,
    time_passes,
    unblock,
)
from tests.fuzz.target import KIB, Cursor, Cut, Target
from tests.support.node import Node
from tests.support.raw_peer import ROLES
from tests.support.raw_v1 import B_V1_ADDR, RawV1Peer, new_v1_node

_AUTHS = ("none", "cephx")
_FEATURES = (
    CLIENT_FEATURES,
    CLIENT_FEATURES & ~Feature.MSG_AUTH,
    CLIENT_FEATURES & ~Feature.CEPHX_V2,
    CLIENT_FEATURES & ~Feature.RECONNECT_SEQ,
    CLIENT_FEATURES & ~Feature.NOSRCADDR,
    0,
)
_REPLY_TAGS = sorted(REPLY_TAGS)


class CutPeer(Cutting, RawV1Peer):
    """A raw v1 peer whose bytes arrive in pieces."""


def _message(talk: Talk, cursor: Cursor) -> None:
    """A message as a proper peer would build it, signed if that was agreed on."""
    seq, kind = cursor.number(), cursor.number(2)
    front, data, times = cursor.counted(), cursor.counted(), cursor.number()
    talk.peer.write(talk.peer.message(seq, type_=kind, front=front, data=data * (1 + times)))


def _spoilt_message(talk: Talk, cursor: Cursor) -> None:
    """The same with one byte changed, crcs and signature included."""
    whole = bytearray(talk.peer.message(cursor.number(), front=cursor.counted()))
    whole[cursor.number() % len(whole)] ^= cursor.number()
    talk.peer.write(bytes(whole))


def _any_message(talk: Talk, cursor: Cursor) -> None:
    """Header and footer of the input's choice, without good crcs."""
    head, front = cursor.take(HEADER.size), cursor.counted()
    talk.peer.write(bytes([Tag.MSG]) + head.ljust(HEADER.size, b"\0") + front + cursor.take(FOOTER.size))


def _connect(talk: Talk, cursor: Cursor) -> None:
    """A CONNECT with any values and any authorizer, or the proper one."""
    peer = talk.peer
    values = [cursor.number(8), *(cursor.number() for _ in range(4))]
    authorizer = cursor.counted() if cursor.number() & 1 else None
    if authorizer is None:
        proper = peer.connect_message()
        method, authorizer = proper.authorizer_protocol, proper.authorizer
    else:
        method = cursor.number() & 7
    features, global_seq, connect_seq, version, flags = values
    supported = peer.features if features == 0 else features
    peer.send(Connect(supported, EntityType.OSD, global_seq, connect_seq, version, method, flags, authorizer))


def _reply(talk: Talk, cursor: Cursor) -> None:
    """A reply of any tag."""
    tag = Tag(_REPLY_TAGS[cursor.number() % len(_REPLY_TAGS)])
    features = cursor.number(8) or talk.peer.features
    global_seq, connect_seq, version, flags = (cursor.number() for _ in range(4))
    talk.peer.send(ConnectReply(tag, features, global_seq, connect_seq, version, flags, cursor.counted()))


OPERATIONS: tuple[Operation, ...] = (
    raw,
    _message,
    _spoilt_message,
    _any_message,
    step,
    _connect,
    _reply,
    time_passes,
    send,
    meet_again,
    skip_step,
    unblock,
)
(
    _RAW,
    _MESSAGE,
    _SPOILT,
    _ANY_MESSAGE,
    _STEP,
    _CONNECT,
    _REPLY,
    _TIME,
    _SEND,
    _AGAIN,
    _SKIP,
    _UNBLOCK,
) = range(len(OPERATIONS))


def play(data: bytes, cut: Cut) -> tuple[Node, int]:
    """Run a script; returns the node as it is then, and the number of bytes sent to it."""
    cursor = Cursor(data)
    choice, options, supported = cursor.number(), cursor.number(), cursor.number()
    role, auth, proper_steps = ROLES[choice & 1], _AUTHS[choice >> 1 & 1], (choice >> 2) % 6
    node = new_v1_node(
        auth=auth,
        **throttling(options),
        interceptor=Stop(cursor) if options & 128 else None,
        **LIMITS,
    )
    if options & 8:
        node = HoardingNode(node.endpoint)
    peer = partial(CutPeer, auth=auth, features=_FEATURES[supported % len(_FEATURES)])
    return node, Talk(node, role, peer, B_V1_ADDR).run(proper_steps, OPERATIONS, cursor, cut)


def run(data: bytes) -> int:
    """Play the script in every way its bytes may be cut."""
    return run_every_way(partial(play, data))


def script(role: int, auth: int, steps: int, options: int, supported: int, *parts: bytes) -> bytes:
    """An input."""
    return bytes([role | auth << 1 | steps << 2, options, supported]) + b"".join(parts)


def seeds() -> Iterator[bytes]:
    """Proper handshakes with peers of every age, replies of every tag, messages good and bad, reconnects."""
    message = bytes([_MESSAGE, 1, 2, 0, 3]) + b"abc" + bytes([2]) + b"xy" + bytes([20])
    again = bytes([_SEND, 1, _AGAIN, *[_STEP] * 4])
    for role, auth in product(range(2), range(2)):
        for supported in range(len(_FEATURES)):
            yield script(role, auth, 4, 0, supported, message, again)
        for options in (1, 2, 12):
            yield script(role, auth, 4, options, 0, message, again, bytes([_TIME, 20]))
        for steps in range(5):
            yield script(role, auth, steps, 0, 0, bytes([_RAW, 2]) + b"ab")
        yield script(role, auth, 4, 0, 0, bytes([_SPOILT, 1, 1, 65, 9, 1]))
        yield script(role, auth, 4, 0, 0, bytes([_ANY_MESSAGE]) + bytes(HEADER.size + 30))
    for number in range(len(_REPLY_TAGS)):
        yield script(0, 0, 2, 0, 0, bytes([_REPLY, number]) + bytes(8) + bytes([1, 2, 10, 0, 0, _STEP, _STEP]))
    for auth in range(2):
        connect = bytes([_CONNECT]) + bytes(8) + bytes([1, 0, 10, 0, 0])
        yield script(1, auth, 2, 0, 0, connect, connect)
        yield script(1, auth, 4, 0, 0, bytes([_SEND, 1, _AGAIN, _STEP, _STEP]), connect)
    for nth in (1, 3, 5):
        for action in range(4):
            yield script(1, 0, 4, 128, 0, bytes([nth, action]), message, bytes([_UNBLOCK, _TIME, 200]))
    for small in (b"\x08" + bytes(8), b"\x09", b"\x0e" + bytes(8), b"\x0f" + bytes(8), b"\x06"):
        yield script(1, 0, 4, 0, 0, bytes([_RAW, len(small)]) + small)
    for captured in captured_messages()[:5]:
        front = bytes(captured.front)[:255]
        kind = captured.type.to_bytes(2, "little")
        yield script(1, 0, 4, 4, 0, bytes([_MESSAGE, 1]) + kind + bytes([len(front)]) + front + b"\0\0")


TARGETS = (
    Target(
        name="v1-link", run=run, seeds=seeds, allowance_bytes=4096 * KIB, coarse=True, mutations=40, max_bytes=500
    ),
)
