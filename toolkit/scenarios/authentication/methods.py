"""Methods and modes: those offered and allowed, and attackers who try to change the choice."""

from collections.abc import Callable
from dataclasses import replace
from errno import EACCES, EOPNOTSUPP
from typing import Any

from messenger.cephx.exchange import AuthMethod, ConMode
from messenger.interception import Action
from messenger.v2.wire import AuthBadMethod, AuthDone, AuthRequest
from toolkit.faults.mangle import Duplicate, Flip, Mangle, Rewrite
from toolkit.lab.lab import Lab
from toolkit.lab.raw_places import CONNECTOR, breaks, stage
from toolkit.lab.verbs.policies import PAIRS, Pair
from toolkit.lab.ways import ALL_WAYS, CRC_WAYS, V1_WAYS, V2_WAYS, ways
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import cluster, enter
from toolkit.scenarios.shared.node_states import FEW_V2_WAYS

_NONE_WAYS = (*CRC_WAYS, *V1_WAYS, *ways("v2-compressed"))


@AU.scenario(
    "AU-01",
    "none_and_cephx_ok",
    cases={
        "cephx": {"how": "cephx"},
        "monitors": {"how": "monitors"},
        **{f"none {name}": {"how": name} for name in PAIRS},
    },
)
def none_and_cephx_ok(lab: Lab, how: str) -> None:
    """With cephx the right keys open a session, with method none every claimed identity does.

    Two nodes share a key; or a client logs in to a monitor, gets tickets, and presents one to an OSD, which got
    its service keys from that monitor; or nodes allow only method none, which takes one round. Method, mode,
    cipher, global_id and link key are the same on both ends, messages pass, and nothing is refused. Method none
    yields no key for secure mode: if only that is allowed, no session opens.
    """
    ends = ("a", "b")
    if how in PAIRS:
        _without_keys(lab, PAIRS[how])
        if lab.is_secure:
            return
    elif how == "cephx":
        lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
        lab.send("a", "b")
        lab.expect_delivered("a", "b", 1)
    else:
        cluster(lab)
        enter(lab)
        ends = ("c", "o")
        state = lab.auth("c")
        lab.require(state["global_id"] >= 4100, f"the monitor gave global_id {state['global_id']}")
        lab.require(set(state["tickets"]) >= {"auth", "osd"}, f"tickets: {state['tickets']}")
    nth = -1 if how == "monitors" else 0  # there the first link is that to the monitor
    one, other = (lab.records(node, "auth")[nth].fields for node in ends)
    for name in ("method", "mode", "cipher", "global_id", "key"):
        lab.require(one[name] == other[name], f"{name}: {one[name]} and {other[name]}")
    method = "none" if how in PAIRS else "cephx"
    lab.require(one["method"] == method, f"the method is {one['method']}")
    reasons = {reason for node in ends for reason in lab.faults(node)}
    lab.require(reasons <= {"SOCKET", "EOF", "RACE"}, f"links broke: {reasons}")


def _without_keys(lab: Lab, pair: Pair) -> None:
    for name, entity, policy in ("a", pair.entity_a, pair.policy_a), ("b", pair.entity_b, pair.policy_b):
        lab.node(name, entity, policy, listens=name == "b" or pair.both_dial, auth={"methods": ["none"]})
    lab.start()
    lab.send("a", "b")
    if lab.is_secure:
        lab.expect_event("a", "b", "refused", 2)
        lab.require({*lab.faults("a")} == {"AUTH_METHOD"}, f"why: {lab.faults('a')}")
        lab.require(not lab.records("b", "auth"), "nobody has got in")
        return
    lab.expect_delivered("a", "b", 1)
    lab.require(not lab.frames("b", "AUTH_REPLY_MORE"), "there is nothing more to say")
    lab.exchange()
    if pair.lossless:
        lab.cut("a", "b")
        lab.wait(0.3)
        lab.send("a", "b", 2)
        lab.expect_delivered("a", "b", 8)
    lab.settle()


_OFFERS: dict[str, dict[str, Any]] = {
    "next method": {"offers": ["cephx", "none"], "allows": ["none"], "works": True},
    "other order": {"offers": ["none", "cephx"], "allows": ["cephx"], "works": True},
    "nothing in common": {"offers": ["cephx"], "allows": ["none"], "works": False},
    "none not allowed": {"offers": ["none"], "allows": ["cephx"], "works": False},
}


@AU.scenario("AU-02", "bad_method_negotiation", ways=_NONE_WAYS, cases=_OFFERS)
def bad_method_negotiation(lab: Lab, offers: list[str], allows: list[str], *, works: bool) -> None:
    """A refused method is answered with the allowed ones, and the next is tried on the same link.

    The connector offers methods in its order, the acceptor allows one. AUTH_BAD_METHOD carries EOPNOTSUPP and the
    allowed methods and modes. With a common method the session opens on that link; without one each dial raises a
    refused event, and the dials go on at growing intervals.
    """
    lab.node("a", "client.7", "lossless_client", listens=False, auth={"offers": offers})
    lab.node("b", "osd.2", "stateful_server", auth={"allows": allows})
    lab.start()
    lab.send("a", "b", 2)
    if works:
        lab.expect_delivered("a", "b", 2)
        lab.require(lab.dials("a") == 1, f"one link does for it, there were {lab.dials('a')}")
        lab.expect_events("a", "b", connect=1)
        lab.settle()
        lab.require(lab.records("a", "auth")[-1]["method"] == allows[0], "the method that both know")
    else:
        lab.expect_event("a", "b", "refused", 3)
        lab.require(lab.delivered("a", "b") == 0, "nothing gets through")
        lab.expect_pauses("a", 0.2, 0.4)
    if not lab.is_v1:
        fields = lab.frames("b", "AUTH_BAD_METHOD")[0]["fields"]
        allowed = [int(AuthMethod[name.upper()]) for name in allows]
        lab.require(fields["result"] == -EOPNOTSUPP, f"the refusal says {fields['result']}")
        lab.require(fields["allowed_methods"] == allowed, f"{fields['allowed_methods']} for {allowed}")
        lab.require(fields["method"] == AuthMethod[offers[0].upper()], "it repeats the method that was tried")
        lab.require(fields["allowed_modes"] == [ConMode.CRC], f"modes: {fields['allowed_modes']}")


_EVERY_MODE = ("ms_cluster_mode", "ms_service_mode", "ms_client_mode")


@AU.scenario(
    "AU-03",
    "modes_disjoint",
    ways=ways("v2-crc", "v2-crc-w2"),
    cases={
        "secure server": {"mode_a": "crc", "mode_b": "secure", "agreed": ""},
        "crc server": {"mode_a": "secure", "mode_b": "crc", "agreed": ""},
        "client prefers crc": {"mode_a": "crc secure", "mode_b": "secure crc", "agreed": "crc"},
        "client prefers secure": {"mode_a": "secure crc", "mode_b": "crc secure", "agreed": "secure"},
        "server insists": {"mode_a": "crc secure", "mode_b": "secure", "agreed": "secure"},
    },
)
def modes_disjoint(lab: Lab, mode_a: str, mode_b: str, agreed: str) -> None:
    """The connection mode is the connector's first that the acceptor allows; without one there is no session.

    Without a common mode neither side falls back: the refusal carries the allowed modes, and the connector raises
    a refused event and dials at growing intervals. Once the acceptor allows its mode the session opens.
    """
    modes: dict[str, dict[str, Any]] = {
        name: dict.fromkeys(_EVERY_MODE, mode) for name, mode in (("a", mode_a), ("b", mode_b))
    }
    lab.node("a", "osd.1", "lossless_peer", **modes["a"])
    lab.node("b", "osd.2", "lossless_peer", **modes["b"])
    lab.start()
    lab.send("a", "b", 2)
    if agreed:
        lab.expect_delivered("a", "b", 2)
        lab.require({r["mode"] for r in lab.records("a", "auth")} == {agreed}, "the mode that was agreed on")
        lab.settle()
        return
    lab.expect_event("a", "b", "refused", 3)
    lab.require(not lab.records("a", "auth"), "nobody is let in in another mode")
    refusal = lab.frames("b", "AUTH_BAD_METHOD")[0]["fields"]
    allowed = [int(ConMode[word.upper()]) for word in mode_b.split()]
    lab.require(refusal["allowed_modes"] == allowed, f"modes {refusal['allowed_modes']}")
    lab.require({*lab.faults("a")} == {"AUTH_METHOD"}, f"why it was refused: {lab.faults('a')}")
    lab.configure("b", **dict.fromkeys(_EVERY_MODE, mode_a))
    lab.expect_delivered("a", "b", 2)
    lab.settle()


_ROUNDS = ("AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE")


@AU.scenario(
    "AU-10",
    "multi_round_and_faults",
    priority=2,
    ways=ways("v2-crc", "v2-secure", "v2-secure-aes256k", "v2-crc-w2"),
    cases={
        f"{action} {tag} {way}": {"point": f"{tag} {way}", "action": action}
        for tag in _ROUNDS
        for way in ("WRITE", "READ")
        for action in ("FAULT", "BLOCK")
    }
    | {"endless replies": {"point": "", "action": ""}},
)
def multi_round_and_faults(lab: Lab, point: str, action: str) -> None:
    """Authentication survives a fault or a stall in each round, and endless rounds break the link.

    At each frame of the exchange the link breaks, or is held for a while: the session opens on the next link, or
    on the same one. A peer that asks for one more round after the last loses its link at once.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    if not point:
        lab.mangle("a", "b", Mangle("b", "AUTH_REPLY_MORE", change=Duplicate()))
        lab.send("a", "b", 2)
        lab.expect_delivered("a", "b", 2)
        lab.require(lab.faults("a") == ["AUTH_REPLY"], f"why the link was left: {lab.faults('a')}")
        lab.settle()
        return
    tag, way = point.split()
    node = "a" if (tag in {"AUTH_REQUEST", "AUTH_REQUEST_MORE"}) is (way == "WRITE") else "b"
    lab.arm(node, point, action)
    lab.send("a", "b", 2)
    lab.expect_hit(node, point)
    if action == Action.BLOCK:
        lab.wait(0.05)
        lab.unblock(node)
    lab.expect_delivered("a", "b", 2)
    lab.expect_events("a", "b", connect=1)
    lab.require(lab.dials("a") == (1 if action == Action.BLOCK else 2), f"{lab.dials('a')} dials")
    lab.settle()


_COVERED = ("BANNER", "HELLO", "AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE")


@AU.scenario(
    "AU-12",
    "signature_tamper",
    ways=V2_WAYS,
    cases={
        f"{tag} of {sender}": {"sender": sender, "tag": tag}
        for tag in _COVERED
        for sender in (("a", "b") if tag in {"BANNER", "HELLO"} else "a" if "REQUEST" in tag else "b")
    },
)
def signature_tamper(lab: Lab, sender: str, tag: str) -> None:
    """Any change of a byte before authentication is done prevents the session.

    Single bits are flipped in each frame up to AUTH_DONE, with crcs recomputed. The receiver, or else the
    signatures, which cover all bytes that each side read, detect each change: no link with a changed byte opens a
    session. The next, unchanged link does.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2", ms_connection_ready_timeout=1.0)
    region = "features" if tag == "BANNER" else "segment 0"
    for byte in (0, 3, 5, 7):
        lab.mangle("a", "b", Mangle(sender, tag, change=Flip(byte, 0x10, region, fix_crc=True)))
        before = len(lab.faults("a"))
        delivered = lab.delivered("a", "b")
        lab.send("a", "b")
        lab.expect_broken("a", before + 1, within_s=5)
        lab.expect_delivered("a", "b", delivered + 1, within_s=30)
        lab.mark_down("a", "b")
        lab.wait(0.2)
    opened = len(lab.records("b", "state", state="READY"))
    lab.require(opened == 4, f"{opened} sessions were opened, one after each change is right")


def _strip(frame: AuthRequest) -> AuthRequest:
    return replace(frame, preferred_modes=[ConMode.CRC])


def _weaken(frame: AuthDone) -> AuthDone:
    return replace(frame, con_mode=ConMode.CRC)


@AU.scenario(
    "AU-13",
    "downgrade_strip_modes",
    priority=2,
    ways=ways("v2-crc"),
    cases={
        "from the request": {"sender": "a", "tag": "AUTH_REQUEST", "edit": _strip},
        "in the answer": {"sender": "b", "tag": "AUTH_DONE", "edit": _weaken},
    },
)
def downgrade_strip_modes(lab: Lab, sender: str, tag: str, edit: Callable[[Any], Any]) -> None:
    """A man in the middle cannot downgrade the connection mode.

    Both sides prefer secure mode and allow crc. An attacker removes secure from the connector's list, or changes
    the answer to crc. The signatures do not match: that link opens no session, and the next one is secure.
    """
    modes: dict[str, Any] = dict.fromkeys(_EVERY_MODE, "secure crc")
    lab.node("a", "osd.1", "lossless_peer", **modes)
    lab.node("b", "osd.2", "lossless_peer", **modes)
    lab.start()
    mangle = lab.mangle("a", "b", Mangle(sender, tag, change=Rewrite(edit, "without secure")))
    lab.send("a", "b", 2)
    lab.expect_mangled(mangle)
    lab.expect_delivered("a", "b", 2)
    lab.settle()
    reasons = {*lab.faults("a"), *lab.faults("b")}
    lab.require(
        "AUTH_SIGNATURE" in reasons or "AUTH_TAG" in reasons or "PREAMBLE_CRC" in reasons, f"why: {reasons}"
    )
    lab.require(all(r["length"] >= 96 for r in lab.messages("a")), "a message was sent in plain text")
    session = lab.records("b", "auth")[-1]
    lab.require(session["mode"] == "secure", f"the session is in mode {session['mode']}")


_VIOLATIONS = ("request before hello", "request twice", "request after done", "message before auth")
_V1_VIOLATIONS = [f"message in place of {what}" for what in ("the address", "CONNECT", "in_seq")]


@AU.scenario(
    "AU-23",
    "auth_order_violations",
    ways=ALL_WAYS,
    cases={name: {"violation": name} for name in _VIOLATIONS},
    v1_cases={name: {"violation": name} for name in _V1_VIOLATIONS},
)
def auth_order_violations(lab: Lab, violation: str) -> None:
    """A peer that breaks the order of authentication loses its link, and gets no session.

    A peer sends AUTH_REQUEST before HELLO, twice at once, or again after AUTH_DONE, or a message before any of
    these. On v1, where CONNECT may be repeated, it sends a message in place of its address, of CONNECT, or of its
    in_seq. Each breaks the link with one fault, delivers nothing and opens no session; a proper peer gets a
    session right after. A v1 session whose CONNECT was granted waits for its client, and the proper peer takes it
    over.
    """
    b = lab.raw("b")
    lab.node("a", "osd.1", "stateful_server")
    lab.start()
    link = b.dial("a")
    link.banner()
    if lab.is_v1:
        if violation != "message in place of the address":
            link.identify()
        if violation == "message in place of in_seq":
            link.converse()
        # What a message would be there: an address of a type that does not exist, no CONNECT, a seq never sent.
        link.write(link.message(1, data=bytes(300)))
        link.expect_closed(15)
    else:
        _break_order(link, violation)
        link.expect_closed()
    lab.require(lab.delivered("b", "a") == 0, "something was delivered")
    lab.expect_fault_count("a", 1)
    granted = violation == "message in place of in_seq"
    lab.require(lab.snapshot("a")["registry"] == int(granted), "a session is left of it")
    proper = b.dial("a").handshake()
    lab.expect_event("a", "b", "accept", 1 + granted)
    lab.require(lab.snapshot("a")["registry"] == 1, "there must be one session")
    proper.hang_up()


def _break_order(link: Any, violation: str) -> None:  # noqa: ANN401 - a link of v2
    """Authenticate in a wrong order, after the banner."""
    if violation == "request before hello":
        link.expect_banner()
        link.auth_request()
        return
    link.hello()
    if violation == "message before auth":
        link.write(link.message(1))
        return
    link.auth_request()
    if violation == "request after done":
        link.auth_more()
        link.signature()
    link.auth_request()


_REFUSALS = {
    "wrong key": (-EACCES, [2], "AUTH_DENIED", "refused with EACCES; the peer allows cephx"),
    "another method": (-EOPNOTSUPP, [1], "AUTH_METHOD", "refused with EOPNOTSUPP; the peer allows none"),
    "no method": (-EOPNOTSUPP, [], "AUTH_METHOD", "refused with EOPNOTSUPP; the peer allows nothing"),
    "nine methods": (-EACCES, [*range(1, 10)], "AUTH_DENIED", "method 8 and 1 more"),
}
"""Result and allowed methods of AUTH_BAD_METHOD, the fault of the connector, and the end of what it says."""


@AU.scenario(
    "AU-25",
    "refusal_is_explained",
    priority=2,
    ways=FEW_V2_WAYS,
    cases={name: {"refusal": name} for name in _REFUSALS},
)
def refusal_is_explained(lab: Lab, refusal: str) -> None:
    """A refused connector reports the errno and the methods that the peer allows, eight at most.

    A peer answers AUTH_REQUEST with AUTH_BAD_METHOD. The link of the node breaks, and the application gets one
    refused event with the tried method, the error by name and the allowed methods by name.
    """
    result, methods, reason, text = _REFUSALS[refusal]
    peer = stage(lab, CONNECTOR)
    link = peer.accept("a")
    link.handshake(until=link.auth_answer)
    tried = link.expect(AuthRequest).method
    breaks(lab, link, lambda: link.send(AuthBadMethod(tried, result, methods, [1, 2])), reason)
    lab.expect_event("a", "b", "refused")
    event = lab.records("a", "event", event="refused")[0]
    lab.require(event["detail"].endswith(text), f"the event says {event['detail']!r}, it should end with {text!r}")
