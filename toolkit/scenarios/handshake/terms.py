"""HS: parameters that both sides agree on, and repeated dials until they do."""

from typing import Any

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.errors import LocalError
from messenger.outputs import EventKind
from messenger.v1.wire import Tag
from messenger.v2.wire import IdentMissingFeatures
from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.lab.ways import COMPRESSED_WAYS, CRC_WAYS, SECURE_WAYS, V1_WAYS, V2_WAYS, ways
from toolkit.scenarios.handshake import HS
from toolkit.scenarios.scenario import ON_SOCKETS

_DISPUTED_FEATURE = int(Feature.CEPHX_V2)
"""The feature that one side of HS-15 requires; cephx on v1 works without it unless it is required."""
_NEVER_REQUIRED = (4, 14, 27)
"""Bits of features that no messenger requires: SUBSCRIBE2, SERVER_KRAKEN and REPLY_CREATE_INODE."""
_PAIRS: dict[str, dict[str, Any]] = {name: {"pair": pair} for name, pair in PAIRS.items()}


def _agreed(lab: Lab, mode: str) -> None:
    """Require that both ends record the same parameters of the link, and each other's global_seqs."""
    (one,), (other,) = ([r.fields for r in lab.records(node, "auth")] for node in ("a", "b"))
    for name in ("method", "mode", "cipher", "global_id", "revision", "key"):
        lab.require(one[name] == other[name], f"{name} is {one[name]} at a and {other[name]} at b")
    lab.require(one["mode"] == mode, f"the mode is {one['mode']}")
    a, b = lab.session("a", "b"), lab.session("b", "a")
    for name in ("client_cookie", "server_cookie", "connect_seq"):
        same = lab.is_v1 or a[name] == b[name]
        lab.require(same, f"{name} is {a[name]} at a and {b[name]} at b")
    if not lab.is_v1:
        lab.require(a["global_seq"] == b["peer_global_seq"], f"global_seq: {a}, {b}")
        lab.require(b["global_seq"] == a["peer_global_seq"], f"global_seq: {a}, {b}")


def _one_message(lab: Lab, pair: Pair) -> None:
    pair.start(lab)
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.expect_events("a", "b", connect=1)
    lab.expect_events("b", "a", accept=1)
    lab.require(lab.dials("a") == 1 and lab.dials("b") == 0, "one dial does for it")
    lab.require(lab.faults("a") == lab.faults("b") == [], "nothing breaks")


@HS.scenario("HS-01", "clean_crc", ways=(*CRC_WAYS, *COMPRESSED_WAYS, *V1_WAYS), cases=_PAIRS)
def clean_crc(lab: Lab, pair: Pair) -> None:
    """A first message opens one session, whose parameters are equal on both sides.

    A node sends a message to another one. There is one dial, one connect event and one accept event and no other,
    the message is delivered once, and both sides record the same method, mode, cipher, global_id, key, cookies and
    sequence numbers.
    """
    _one_message(lab, pair)
    _agreed(lab, "crc")
    lab.settle()
    lab.require(lab.delivered("a", "b") == 1, "the message is delivered once")


@HS.scenario("HS-02", "clean_secure", ways=SECURE_WAYS, cases=_PAIRS)
def clean_secure(lab: Lab, pair: Pair) -> None:
    """In secure mode both sides report AES-GCM, and no message is readable on the wire.

    As HS-01, between nodes that allow only secure mode: both report AES-GCM under the same key. From
    AUTH_SIGNATURE on, an observer finds no byte of the plaintext.
    """
    tapes = {node: lab.tape(node, peer) for node, peer in (("a", "b"), ("b", "a"))}
    _one_message(lab, pair)
    _agreed(lab, "secure")
    lab.send("b", "a")
    lab.expect_delivered("b", "a", 1)
    lab.settle()
    for node, tape in tapes.items():
        received = bytes(tape.received)
        lab.require(received.startswith(b"ceph v2\n"), "the banner can be read")
        lab.require(b"message" not in received, f"what {node} sent can be read")
    lab.require(all(r["length"] >= 96 for r in lab.messages("a")), "messages are sealed")


@HS.scenario(
    "HS-13",
    "rev0_rev1_fallback",
    ways=V2_WAYS,
    cases={"connector": {"old": "a"}, "acceptor": {"old": "b"}, "both": {"old": "ab"}},
)
def rev0_rev1_fallback(lab: Lab, old: str) -> None:
    """Both sides speak msgr 2.0 while one of them lacks msgr 2.1, and msgr 2.1 after its upgrade.

    The banner of one side, or of both, has no features. Messages of several shapes pass in frames of msgr 2.0.
    Then the old side is upgraded and the link breaks: the session resumes in frames of msgr 2.1, and no message is
    lost.
    """
    for name, entity in ("a", "osd.1"), ("b", "osd.2"):
        lab.node(name, entity, "lossless_peer", msgr2_features=0 if name in old else 3)
    lab.start()
    for size in (0, 1, 5000):
        lab.send("a", "b", 1, size, front_bytes=size, middle_bytes=7)
        lab.send("b", "a", 1, size, front_bytes=3)
    lab.expect_delivered("a", "b", 3)
    lab.expect_delivered("b", "a", 3)
    lab.require({r["revision"] for r in lab.records("a", "auth")} == {0}, "frames are those of msgr 2.0")
    for name in old:
        lab.configure(name, msgr2_features=3)
    lab.expect_acked("a")
    lab.expect_acked("b")
    lab.cut("a", "b")
    lab.exchange(count=4)
    lab.settle()
    for node, peer in ("a", "b"), ("b", "a"):
        lab.require(lab.records(node, "auth")[-1]["revision"] == 1, f"{node} still speaks msgr 2.0")
        lab.expect_no_event(node, peer, "remote_reset")


@HS.scenario(
    "HS-15",
    "missing_features_forever",
    cases={"the connector lacks it": {"lacking": "a"}, "the acceptor lacks it": {"lacking": "b"}},
)
def missing_features_forever(lab: Lab, lacking: str) -> None:
    """A peer that lacks a required feature gets no session until it has the feature.

    One side requires a feature bit that the other does not offer. Each dial ends with a fault and one refused
    event at the connector; the pauses between dials double up to ms_max_backoff. Once the feature is offered, the
    next dial opens the session and the queued messages arrive.
    """
    features = {"features_supported": CLIENT_FEATURES & ~_DISPUTED_FEATURE}
    requires = {"requires": _DISPUTED_FEATURE}
    mine, theirs = (features, requires) if lacking == "a" else (requires, features)
    lab.node("a", "client.7", "lossless_client", listens=False, **mine)  # type: ignore[arg-type]
    lab.node("b", "osd.2", "stateful_server", **theirs)  # type: ignore[arg-type]
    lab.start()
    initial_s = 0.02 if lab.real_time else 0.2
    lab.configure("a", ms_initial_backoff=initial_s, ms_max_backoff=15 * initial_s)
    lab.send("a", "b", 2)
    lab.expect_event("a", "b", "refused", 7, within_s=60)
    refused = lab.events("a", "b", EventKind.REFUSED)
    lab.expect_events("a", "b", refused=refused)
    lab.require(refused == len(lab.faults("a")), f"{refused} refused events for the faults {lab.faults('a')}")
    lab.expect_pauses("a", *(initial_s * 2**n for n in range(4)), 15 * initial_s, 15 * initial_s)
    lab.require({*lab.faults("a")} == {"MISSING_FEATURES"}, f"why it was refused: {lab.faults('a')}")
    lab.configure(lacking, features_supported=CLIENT_FEATURES)
    lab.expect_delivered("a", "b", 2)
    lab.settle()


@HS.scenario("HS-18", "refused_then_up")
def refused_then_up(lab: Lab) -> None:
    """A peer that does not listen yet is dialled at growing intervals.

    No process listens at the peer's address; every refused dial raises a refused event. The pauses double from
    ms_initial_backoff on. Once the peer listens the next dial succeeds, every queued message arrives, and the next
    series of pauses starts from ms_initial_backoff again.
    """
    lab.node("a", "client.7", "lossless_client", listens=False)
    lab.node("b", "osd.2", "stateful_server")
    lab.start("a")
    lab.refuse("a", "b", refused=lab.real_time)  # on sockets a proxy listens before the node does
    lab.send("a", "b", 3)
    lab.expect_event("a", "b", "refused", 4)
    lab.expect_pauses("a", 0.2, 0.4, 0.8)
    lab.start("b")
    lab.heal()
    lab.expect_delivered("a", "b", 3)
    lab.expect_events("a", "b", refused=lab.events("a", "b", EventKind.REFUSED), connect=1)
    lab.require({*lab.faults("a")} == {"REFUSED"}, f"why dials failed: {lab.faults('a')}")
    lab.expect_acked("a")
    before = lab.dials("a")
    lab.kill("b")
    lab.send("a", "b", 2)
    lab.wait(0.35)
    lab.require(lab.dials("a") - before == 2, "after a success the first pause is short again")
    lab.revive("b")
    lab.expect_event("a", "b", "remote_reset")
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 5)


@HS.scenario("HS-19", "bind_conflicts", priority=2, backends=ON_SOCKETS, only="addresses of the kernel")
def bind_conflicts(lab: Lab) -> None:
    """Binding a used address fails, and succeeds once the address is free.

    A second node binds the address of the first: it fails with an error that names the address, and the first one
    goes on. Once the first is killed the second binds the address at once, under its own identity.
    """
    lab.node("a", "client.7", "lossless_client", listens=False)
    lab.node("b", "osd.2", "stateful_server")
    lab.start()
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.node("c", "osd.3", "stateful_server")
    lab.same_address("c", "b")
    try:
        lab.start("c")
    except LocalError as error:
        lab.require("cannot listen on" in str(error), f"it says why: {error}")
    else:
        lab.require(condition=False, what="two nodes listen at one address")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 2)
    lab.expect_acked("a")
    lab.kill("b")
    lab.start("c")
    lab.send("a", "c")
    lab.expect_delivered("a", "c", 1)


@HS.scenario(
    "HS-20",
    "flags_vs_policy",
    priority=2,
    cases={
        "lossy client": {"policy_a": "lossy_client", "policy_b": "stateful_server", "lossy": False},
        "lossy server": {"policy_a": "lossless_client", "policy_b": "stateless_server", "lossy": True},
    },
)
def flags_vs_policy(lab: Lab, policy_a: str, policy_b: str, *, lossy: bool) -> None:
    """The acceptor's policy decides on both sides if a session is lossy.

    The connector's policy is lossless and the acceptor's lossy, or the other way round. Both sides follow the
    acceptor's: a lossless session loses nothing when its link is cut; a lossy one ends on both sides with a reset
    event.
    """
    lab.two(policy_a, policy_b, "client.7", "osd.2")
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", 3)
    lab.expect_acked("a")
    lab.cut("a", "b")
    if lossy:
        lab.expect_event("a", "b", "reset")
        lab.expect_event("b", "a", "reset")
        lab.expect_no_dial(1.0, "a")
        lab.expect_events("a", "b", connect=1, reset=1)
        return
    lab.wait(0.5)
    lab.send("a", "b", 3)
    lab.expect_delivered("a", "b", 6)
    for node, peer in ("a", "b"), ("b", "a"):
        lab.expect_no_event(node, peer, "reset")
        lab.expect_no_event(node, peer, "remote_reset")
    lab.settle()


_DAEMONS: dict[str, tuple[str, str, str, tuple[int, ...]]] = {
    "OSD to OSD": ("osd.1", "osd cluster", "osd.2", (0, 9, 13)),
    "metadata server to metadata server": ("mds.1", "mds", "mds.2", (0,)),
    "OSD to monitor": ("mon.1", "mon", "osd.2", (21,)),
    "metadata server to manager": ("mgr.1", "mgr", "mds.2", (21,)),
}
"""A daemon, its messenger, a peer, and the bits of the features that the messenger requires of the peer
(docs/protocol.md §3.8, and §2.1 for the numbers: UID 0, PGID64 9, OSDENC 13, SERVER_LUMINOUS 21)."""


@HS.scenario(
    "HS-23",
    "features_that_daemons_require",
    ways=ways("v2-crc", "v2-secure", "v1"),
    cases={name: {"daemon": daemon} for name, daemon in _DAEMONS.items()},
)
def features_that_daemons_require(lab: Lab, daemon: tuple[str, str, str, tuple[int, ...]]) -> None:
    """Messengers of Ceph's daemons refuse peers that lack the features which Ceph requires of them.

    A peer dials a daemon with all features of Pacific but one. If the daemon's messenger requires that one of such
    peers, it answers with exactly that bit, on v1 with the tag FEATURES, and no session opens. With any of some
    other bits missing, and with all features, the peer gets a session.
    """
    entity, messenger, other, required = daemon
    peer = lab.raw("b", other)
    lab.node("a", entity, messenger)
    lab.start()
    for bit in (*required, *_NEVER_REQUIRED):
        link = peer.dial("a")
        refused, bits = _refusal_of(lab, link, CLIENT_FEATURES & ~(1 << bit))
        lab.require(refused is (bit in required), f"refused without feature {bit}: {refused}")
        lab.require(not refused or bool(bits >> bit & 1), f"without feature {bit} the answer requires 0x{bits:x}")
        lab.require(lab.is_v1 or not refused or bits == 1 << bit, f"without feature {bit}: 0x{bits:x}")
        link.hang_up()
        lab.wait(0.1)


def _refusal_of(lab: Lab, link: Any, features: int) -> tuple[bool, int]:  # noqa: ANN401 - of either protocol
    """True if the node refuses a peer with these features, and the features in its answer."""
    if lab.is_v1:
        link.handshake(until=link.connect)
        reply = link.converse(features=features)
        return reply.tag is Tag.FEATURES, reply.features
    link.handshake(until=link.ident)
    link.send(link.client_ident(features_supported=features))
    answer = link.await_next()
    refused = isinstance(answer, IdentMissingFeatures)
    return refused, answer.features if refused else 0
