"""AU: logins whose replies are forged, and claims that a login does not cover."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from messenger.cephx.keys import CryptoKey
from messenger.cephx.session_reply import SessionReply, decode_session_reply, encode_session_reply
from messenger.denc.entity import EntityType
from messenger.outputs import EventKind
from messenger.v2.wire import AuthDone
from toolkit.faults.mangle import Mangle, Rewrite
from toolkit.lab.lab import Lab
from toolkit.lab.ways import CRC_WAYS, SECURE_WAYS, ways
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import CLIENT, DAEMON, cluster, login

_SOME_WAYS = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v1", "v1-aes256k", "v1-w2")
_FORGED = {
    "ticket of another service": "has no ticket for its ticket service",
    "key of another": "tickets: ",
    "cut short": "",
}
"""Replies of a monitor that are not genuine, with a part of the fault's text."""


def _forge(lab: Lab, key: CryptoKey, how: str) -> Callable[[AuthDone], AuthDone]:
    """Return what replaces a monitor's AUTH_DONE."""

    def forged(reply: SessionReply) -> bytes:
        if how == "ticket of another service":
            reply = replace(reply, auth=replace(reply.auth, service_id=EntityType.OSD))
        principal = CryptoKey.from_base64(lab.new_key()) if how == "key of another" else key
        return encode_session_reply(reply, principal, lab.rng)

    def edit(frame: AuthDone) -> AuthDone:
        if how == "cut short":
            return replace(frame, auth_payload=frame.auth_payload[: len(frame.auth_payload) // 2])
        return replace(frame, auth_payload=forged(decode_session_reply(frame.auth_payload, key)))

    return edit


@AU.scenario(
    "AU-31",
    "login_reply_forged",
    ways=(*CRC_WAYS, *SECURE_WAYS),
    cases={name: {"how": name} for name in _FORGED},
)
def login_reply_forged(lab: Lab, how: str) -> None:
    """A client takes no ticket from a reply that its monitor cannot have made.

    A monitor's AUTH_DONE has a ticket for the OSDs where that of the monitor's own ticket service is due, is
    sealed with a key that is not the client's, or is cut short. The client closes the link with a fault that names
    the cause; it has neither a ticket nor a global_id, and no session with the monitor. It logs in with the next
    dial, whose reply is genuine.
    """
    entities = cluster(lab)
    key = CryptoKey.from_base64(entities["client.7"]["key"])
    mangle = lab.mangle("c", "m", Mangle("m", "AUTH_DONE", change=Rewrite(_forge(lab, key, how), how)))
    lab.dial("c", "m")
    lab.expect_mangled(mangle)
    lab.expect_broken("c", 1)
    reason, detail = lab.faults("c")[0], lab.last_fault("c")
    lab.require(reason in {"AUTH_REPLY", "MALFORMED"}, f"why the client left: {reason}")
    lab.require(_FORGED[how] in detail, f"the fault says {detail!r}")
    lab.require(not lab.events("c", "m", EventKind.CONNECT), "a session was opened by a forged reply")
    state = lab.auth("c")
    lab.require(state["tickets"] == {} and state["global_id"] == 0, f"the client holds {state}")
    lab.expect_login("c", "m")
    lab.expect_ticket("c", "osd", 2)
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 2)


@AU.scenario(
    "AU-32",
    "service_without_ticket",
    priority=2,
    ways=_SOME_WAYS,
    cases={"before the login": {"logged_in": False}, "after the login": {"logged_in": True}},
)
def service_without_ticket(lab: Lab, *, logged_in: bool) -> None:
    """A client that has no ticket for a service sends it no authorizer, and reports which tickets it holds.

    A client dials an OSD before it has logged in at a monitor; or it is logged in and dials a peer that is itself
    a client, for which monitors grant no tickets. The fault names the type of the service and lists the tickets:
    none, or those that the monitor has granted. The peer receives no request to authenticate.
    """
    entities = cluster(lab, start=False)
    lab.node("x", "client.9", "stateful_server", auth=login(entities, "client.7"))
    lab.start()
    peer, service, held = "o", "osd", {"none"}
    if logged_in:
        lab.dial("o", "m")
        lab.expect_secrets("o", 1, 2, 3)
        lab.dial("c", "m")
        lab.expect_login("c", "m")
        peer, service, held = "x", "client", set(lab.auth("c")["tickets"])
    lab.dial("c", peer)
    lab.expect_event("c", peer, "refused")
    detail = lab.last_fault("c")
    lab.require(f"no ticket for {service} from a monitor" in detail, f"the fault says {detail!r}")
    listed = set(detail.partition("it holds: ")[2].split(", "))
    lab.require(listed == held, f"the client holds {held}; the fault says {detail!r}")
    tags = {frame["tag"] for frame in lab.history.node(peer).of("frame") if frame["direction"] == "rx"}
    lab.require(not {"AUTH_REQUEST", "CONNECT"} & tags, f"{peer} received {tags}")


_CLAIMED: dict[str, dict[str, Any]] = {
    "own type": {"entity": "osd.5", "granted": True},
    "client": {"entity": "client.5", "granted": True},
    "metadata server": {"entity": "mds.5", "granted": False},
    "manager": {"entity": "mgr.5", "granted": False},
}
"""Types as which an OSD dials."""


@AU.scenario("AU-33", "type_that_was_not_proven", ways=_SOME_WAYS, cases=_CLAIMED)
def type_that_was_not_proven(lab: Lab, entity: str, *, granted: bool) -> None:
    """A peer gets a session as the type that it has proven, or as a client; the type selects its policy.

    A process that has the key of an OSD dials a monitor and another OSD. As an OSD, or as a client, which modules
    of daemons are, it gets its tickets and a session. As a metadata server or a manager it is refused, before it
    has a session, with every dial: on v2 by the monitor, on v1, where monitors grant tickets to open sessions, by
    the OSD.
    """
    entities = {name: lab.entity() for name in ("osd.2", "osd.5")}
    lab.monitor("m", 0, entities)
    lab.node("o", "osd.2", DAEMON, auth=login(entities, "osd.2"))
    lab.node("p", entity, CLIENT, listens=False, auth=login(entities, "osd.5"))
    lab.start()
    lab.dial("o", "m")
    lab.expect_secrets("o", 1, 2, 3)
    lab.dial("p", "m")
    if granted or lab.is_v1:
        lab.expect_login("p", "m")
        lab.expect_ticket("p", "osd", 2)
        lab.send("p", "o", 2)
    if granted:
        lab.expect_delivered("p", "o", 2)
        lab.settle()
        return
    refuser = "o" if lab.is_v1 else "m"
    lab.expect_event("p", refuser, "refused", 2)
    details = [record["detail"] for record in lab.records(refuser, "fault", reason="AUTH_DENIED")]
    wanted = f"osd.5 says that it is a {entity.partition('.')[0]}"
    lab.require(len(details) >= 2 and all(wanted in detail for detail in details), f"{refuser} says {details}")
    lab.require(not lab.delivered("p", "o"), "a message was delivered of a type that was not proven")
    opened = [record["peer"] for record in lab.records(refuser, "event", event="accept")]
    lab.require(len(opened) == (refuser == "m"), f"sessions of {refuser}: {opened}")
