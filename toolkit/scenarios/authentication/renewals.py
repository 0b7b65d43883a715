"""AU: what a login leaves for later: the AUTH ticket, which proves a global_id, and the agreed method."""

from toolkit.lab.lab import Lab
from toolkit.lab.ways import ways
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import CLIENT, DAEMON, cluster, enter, login

_AUTH_TTL_S = 240.0
"""Validity of the AUTH ticket; the monitor has its key for three times as long."""
_SOME_WAYS = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v1", "v1-aes256k", "v1-w2")


@AU.scenario(
    "AU-26",
    "auth_ticket_lifetime",
    ways=_SOME_WAYS,
    backends=("sim",),
    only="tickets live for minutes",
    cases={"renewed": {"how": "renewed"}, "expired": {"how": "expired"}},
)
def auth_ticket_lifetime(lab: Lab, how: str) -> None:
    """A client keeps its global_id as long as it renews its AUTH ticket, which takes no new connection.

    A login on v2 takes no MAuth message, because AUTH_DONE has all tickets. When three quarters of the validity of
    the AUTH ticket have passed, the client proves its key again on the same connection, with its old ticket, and
    gets a new one: after the validity of the first it dials again under its global_id. A client without a
    connection cannot renew the ticket. Once it has expired the client asks for a new global_id and presents no
    ticket, so that the monitor refuses nothing.
    """
    cluster(lab, auth_ttl_s=_AUTH_TTL_S)
    enter(lab)
    first = lab.auth("c")["global_id"]
    asked = len(lab.records("c", "send", peer="m"))
    lab.require((asked > 0) is lab.is_v1, f"the login took {asked} messages")
    if how == "renewed":
        lab.wait(_AUTH_TTL_S * 0.7)
        lab.renew("c")
        lab.wait(1.0)
        early = len(lab.records("c", "send", peer="m")) - asked
        lab.require(early == 1, f"one request for service tickets is due, {early} were made")
        lab.wait(_AUTH_TTL_S * 0.1)
        lab.renew("c")
        lab.wait(1.0)
        lab.require(lab.dials("c") == 2, f"the ticket is renewed on the same connection: {lab.dials('c')} dials")
        lab.require(lab.auth("c")["failures"] == [], f"a request failed: {lab.auth('c')['failures']}")
        made = len(lab.records("c", "send", peer="m")) - asked - early
        lab.require(1 <= made <= 2, f"one proof and at most one request for tickets are due, {made} were made")
        lab.wait(_AUTH_TTL_S * 0.4)
    lab.mark_down("c", "m")
    if how == "expired":
        lab.wait(_AUTH_TTL_S * 1.1)
    dials = lab.dials("c")
    lab.dial("c", "m")
    lab.expect_login("c", "m")
    lab.require(lab.dials("c") == dials + 1, f"{lab.dials('c') - dials} dials were needed")
    kept = lab.auth("c")["global_id"] == first
    lab.require(kept is (how == "renewed"), f"global_id {first} became {lab.auth('c')['global_id']}")
    lab.expect_no_event("c", "m", "refused")
    lab.require(lab.auth("c")["failures"] == [], f"a request failed: {lab.auth('c')['failures']}")
    lab.settle()


@AU.scenario(
    "AU-30",
    "method_of_the_monitor",
    priority=2,
    ways=ways("v2-crc", "v2-crc-w2", "v1", "v1-w2"),
    cases={
        "cephx": {"offers": ["none", "cephx"], "method": "cephx"},
        "none": {"offers": ["cephx", "none"], "method": "none"},
    },
)
def method_of_the_monitor(lab: Lab, offers: list[str], method: str) -> None:
    """After its login a client uses only the method with which the monitor accepted it.

    A client offers methods none and cephx, and prefers the one that the monitor refuses. It logs in with the
    other. An OSD allows both methods: the client dials it with the monitor's method at once, so that nothing is
    refused, and the OSD never gets the client's first choice.
    """
    entities = {name: lab.entity() for name in ("osd.2", "client.7")}
    required = {"cluster_required": [method], "service_required": [method]}
    lab.monitor("m", 0, entities, **required)
    both = {"allows": ["cephx", "none"]}
    lab.node("o", "osd.2", DAEMON, auth={**login(entities, "osd.2"), "offers": [method], **both})
    lab.node("c", "client.7", CLIENT, listens=False, auth={**login(entities, "client.7"), "offers": offers})
    lab.start()
    if method == "cephx":
        lab.dial("o", "m")
        lab.expect_secrets("o", 1, 2, 3)
    lab.dial("c", "m")
    lab.expect_login("c", "m")
    if method == "cephx":
        lab.expect_ticket("c", "osd", 2)
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 2)
    used = lab.records("o", "auth")[-1]["method"]
    lab.require(used == method, f"the OSD was dialled with method {used}")
    lab.require(not lab.frames("o", "AUTH_BAD_METHOD"), "the OSD refused a method")
    lab.settle()
