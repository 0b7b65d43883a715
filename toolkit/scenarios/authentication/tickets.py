"""Tickets: expired, of unknown keys, changed, renewed, and keys that rotate."""

from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.outputs import EventKind
from toolkit.lab.lab import Lab
from toolkit.lab.ways import ways
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import SERVICE_TTL_S, cluster, enter, refusals

_SOME_WAYS = ways(
    "v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v2-secure-w2", "v1", "v1-aes256k", "v1-w2"
)


@AU.scenario(
    "AU-05", "unknown_secret_id", ways=_SOME_WAYS, cases={"wiped": {"wipe": True}, "shared key": {"wipe": False}}
)
def unknown_secret_id(lab: Lab, *, wipe: bool) -> None:
    """A ticket that the service cannot open is refused and replaced by a new one.

    The service's keys have changed since the client got its ticket. The OSD refuses the ticket, and a refused
    event is raised; the client drops it, requests another one from its monitor, and opens the session with it on
    one of the next dials: no message is lost. A client without a monitor is refused until the service has the key
    of its ticket.
    """
    if not wipe:
        other = lab.new_key()
        lab.node("a", "client.7", "lossless_client", listens=False, auth={"mints": {"secret_id": 5, "key": other}})
        lab.node("b", "osd.2", "stateful_server")
        lab.start()
        lab.send("a", "b", 2)
        lab.expect_broken("a", 2)
        lab.require(not lab.records("b", "auth"), "nobody has got in")
        lab.change_auth("b", secrets={"4": lab.new_key(), "5": other})
        lab.expect_delivered("a", "b", 2)
        lab.settle()
        return
    cluster(lab)
    enter(lab)
    lab.expect_acked("c")
    lab.rotate("m", wipe=True)
    before = len(lab.records("c", "fault"))
    lab.kill("o")
    lab.wait(0.5)
    lab.revive("o")
    lab.dial("o", "m")
    lab.expect_secrets("o", 1, 2, 3)
    lab.send("c", "o", 3)
    lab.expect_event("c", "o", "remote_reset")
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 4, within_s=30)
    reasons = [record["reason"] for record in lab.records("c", "fault")[before:]]
    lab.require("AUTH_DENIED" in reasons, f"the old ticket was refused: {reasons}")
    lab.require(reasons.count("AUTH_DENIED") <= 2, f"one refusal is enough to get another ticket: {reasons}")


_SPOILT = {
    "ticket": [*range(100)],
    "authorizer": [*range(1, 13), *range(14, 160)],
    "envelope": [*range(9)],
}
"""Bytes in which a bit is flipped. Byte 0 marks an authorizer, and byte 13 is the version of the encoding of the
ticket, of which there may be newer ones."""
_FIRST_BLOCK = range(16)
"""The first block of a sealed ticket; it has the magic, so that a change of it is always detected."""


@AU.scenario(
    "AU-15",
    "ticket_bit_flips",
    priority=2,
    ways=ways("v2-crc", "v2-secure-aes256k", "v1", "v1-aes256k"),
    cases={
        f"{part} {step} of 4": {"part": part, "step": step}
        for part in ("ticket", "authorizer")
        for step in range(4)
    }
    | {"envelope": {"part": "envelope", "step": 0}},
)
def ticket_bit_flips(lab: Lab, part: str, step: int) -> None:
    """A ticket or authorizer with a flipped bit is refused: by aes256k always, by aes if the flip hits its magic.

    The client itself flips a bit in one byte after the other of what it presents, so that no signature detects it.
    With aes256k keys every change of a ciphertext is refused. With aes keys only the magic of the envelope is
    checked: a change in a ticket's first block is always refused, and in at most three of four of the other places
    the change is not noticed. An authorizer that is sealed again with another magic in its envelope is refused by
    both ciphers; the version in front of the magic is ignored. Afterwards the unchanged ticket opens a session.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    places = _SPOILT[part][step :: 1 if part == "envelope" else 4]
    accepted = [byte for byte in places if _is_accepted(lab, part, byte)]
    result = f"changes of {part} byte {accepted} of {places} were let in"
    if part == "envelope":
        lab.require(accepted == [0], result)
    elif lab.way.key_type is KeyType.AES256KRB5:
        lab.require(not accepted, result)
    else:
        lab.require(len(accepted) <= len(places) * 0.75, result)
        lab.require(part != "ticket" or not set(accepted) & set(_FIRST_BLOCK), result)
    lab.spoil("a")
    got = lab.delivered("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", got + 1)


def _is_accepted(lab: Lab, part: str, byte: int) -> bool:
    """True if a client's session opens although a bit of that byte of its ticket or authorizer is flipped."""
    lab.spoil("a", **{part: (byte, 1 << byte % 8)})
    before, got = len(lab.faults("a")), lab.delivered("a", "b")
    lab.send("a", "b")
    lab.wait_until(
        lambda: lab.delivered("a", "b") > got or len(lab.faults("a")) > before, f"byte {byte} of the {part} judged"
    )
    lab.mark_down("a", "b")
    lab.wait(0.05)
    return lab.delivered("a", "b") > got


_SKEWS: dict[str, dict[str, Any]] = {
    "client an hour ahead": {"node": "c", "seconds": 3600.0, "works": True},
    "client an hour behind": {"node": "c", "seconds": -3600.0, "works": True},
    "service a bit ahead": {"node": "o", "seconds": 10.0, "works": True},
    "service a bit behind": {"node": "o", "seconds": -10.0, "works": True},
    "service an hour behind": {"node": "o", "seconds": -3600.0, "works": True},
    "service an hour ahead": {"node": "o", "seconds": 3600.0, "works": False},
}


@AU.scenario("AU-17", "clock_skew", priority=2, ways=_SOME_WAYS, cases=_SKEWS)
def clock_skew(lab: Lab, node: str, seconds: float, *, works: bool) -> None:
    """A service clock that is ahead by more than a ticket's life refuses its clients until it is corrected.

    A client measures the life of its ticket from when it got it, so its own clock may be wrong. A service whose
    clock is ahead takes tickets for expired, and its refusals give that reason; new tickets do not help the
    client. Once the clock is corrected the next dial opens the session, without a restart.
    """
    cluster(lab)
    lab.jump_clock(node, seconds)
    lab.dial("c", "m")
    lab.expect_login("c", "m")
    lab.expect_ticket("c", "osd", 2)
    lab.send("c", "o", 2)
    if not works:
        lab.expect_broken("c", 2)
        lab.require(lab.delivered("c", "o") == 0, "a ticket that is expired for the service was taken")
        details = [record["detail"] for record in lab.records("o", "fault")]
        lab.require(any("expired" in detail for detail in details), f"the service says why: {details}")
        lab.jump_clock(node, -seconds)
    lab.expect_delivered("c", "o", 2)
    lab.cut("c", "o")
    lab.wait(0.3)
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 4)


_CLIENTS = 6


@AU.scenario(
    "AU-18",
    "service_key_rotation_live",
    priority=2,
    ways=_SOME_WAYS,
    backends=("sim",),
    only="tickets and keys live for hours",
    cases={"rotation": {"how": "rotation"}, "wipe": {"how": "wipe"}, "within a reconnect": {"how": "reconnect"}},
)
def service_key_rotation_live(lab: Lab, how: str) -> None:
    """Service keys rotate without breaking open sessions, and dials get the new keys after at most one refusal.

    Several clients have sessions with an OSD when its keys rotate, or are wiped. Open sessions go on, because keys
    only matter in handshakes. Then the links break; after a rotation the tickets stay valid, after a wipe each
    client is refused once and renews its ticket while the session waits. No message and no session is lost. A
    ticket that expires while a session has no link is renewed as it reconnects, with the client's login.
    """
    if how == "reconnect":
        _renewal_inside_reconnect(lab)
        return
    wipe = how == "wipe"
    cluster(lab, clients=_CLIENTS)
    names = ["c", *(f"c{number}" for number in range(2, _CLIENTS + 1))]
    for name in names:
        enter(lab, name)
    if wipe:
        lab.rotate("m", wipe=True)
    else:
        # The keys rotate after twice their ttl; a client renews its tickets before, after three quarters of it.
        lab.wait(SERVICE_TTL_S * 2 - 10)
        for name in names:
            lab.renew(name)
        lab.wait(12)
        lab.rotate("m")
    for name in names:
        lab.send(name, "o", 2)
        lab.expect_delivered(name, "o", 4)
    lab.require(all(refusals(lab, name, "o") == 0 for name in names), "sessions that are open go on")
    _fetch_keys(lab, wipe=wipe)
    for name in names:
        lab.cut(name, "o")
        lab.send(name, "o", 3)
    for name in names:
        lab.expect_delivered(name, "o", 7, within_s=30)
        lab.expect_no_event(name, "o", "remote_reset")
        lab.expect_no_event("o", name, "reset")
        refused = refusals(lab, name, "o") + lab.faults(name).count("AUTH_DENIED")
        lab.require((refused > 0) is wipe, f"{name} was refused {refused} times")
        lab.require(lab.faults(name).count("AUTH_DENIED") <= 2, f"{name}: {lab.faults(name)}")
    if wipe:
        for name in names:
            lab.expect_ticket(name, "osd", 2)


def _fetch_keys(lab: Lab, *, wipe: bool) -> None:
    """Have the OSD fetch its keys on a tick; after a wipe it does so when it logs in again."""
    if not wipe:
        lab.wait(SERVICE_TTL_S / 4)
        lab.renew("o")
        lab.expect_secrets("o", 2, 3, 4)
        return
    lab.change_auth("o", secrets={})
    lab.wait(1.5)
    lab.renew("o")
    lab.expect_secrets("o", 1, 2, 3)


def _renewal_inside_reconnect(lab: Lab) -> None:
    """The first dial that succeeds has no valid ticket; the same session goes on with a new one."""
    cluster(lab)
    enter(lab)
    lab.expect_acked("c")
    lab.refuse("c", "o")
    lab.cut("c", "o")
    lab.send("c", "o", 3)
    lab.wait(SERVICE_TTL_S * 2.5)
    lab.renew("o")
    lab.expect_secrets("o", 2, 3, 4)
    lab.heal()
    lab.expect_delivered("c", "o", 5, within_s=40)
    lab.expect_no_event("c", "o", "remote_reset")
    lab.expect_no_event("o", "c", "remote_reset")
    lab.expect_ticket("c", "osd", 3)
    lab.require("AUTH_DENIED" in lab.faults("c"), f"the expired ticket was noticed: {lab.faults('c')}")
    lab.require(lab.events("o", "c", EventKind.ACCEPT) == 2, "the session is the same, accepted once more")
