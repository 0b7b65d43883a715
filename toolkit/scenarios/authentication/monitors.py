"""Monitors: accepted and refused clients, and clients that dial many monitors."""

from typing import Any

from messenger.denc.features import CLIENT_FEATURES, Feature
from messenger.interception import Action
from toolkit.lab.lab import Lab
from toolkit.lab.ways import V1_WAYS, ways
from toolkit.node.raw.stream import PATIENCE_S
from toolkit.scenarios.authentication import AU
from toolkit.scenarios.authentication.login_cluster import CLIENT, cluster, login, refusal_codes

_SOME_WAYS = ways("v2-crc", "v2-crc-w2", "v2-secure", "v2-secure-aes256k", "v1", "v1-aes256k", "v1-w2")
_WRONG = ("wrong key", "unknown name", "no capabilities", "cipher not allowed")


@AU.scenario(
    "AU-04", "wrong_key_unknown_entity", ways=_SOME_WAYS, cases={name: {"wrong": name} for name in _WRONG}
)
def wrong_key_unknown_entity(lab: Lab, wrong: str) -> None:
    """A wrong key, unknown name, missing capabilities or forbidden cipher get the same refusal.

    The monitor challenges every client and refuses all of these with EACCES, at the same step, with the same
    frames. It issues no ticket and opens no session, and the client goes on dialling. A client with the right key
    logs in meanwhile.
    """
    entities = {name: lab.entity() for name in ("client.7", "client.8", "osd.2")}
    auth = login(entities, "client.7")
    if wrong == "wrong key":
        auth["login"]["key"] = lab.new_key()
    elif wrong == "unknown name":
        auth["login"]["name"] = "client.77"
    elif wrong == "no capabilities":
        entities["client.7"]["caps"] = {"osd": "allow *"}
    allowed = ["aes", "aes256k"]
    if wrong == "cipher not allowed":
        allowed.remove(lab.way.key_type.label)
        entities["client.8"]["key"] = lab.new_key(_other(lab))
    lab.monitor("m", 0, entities, allowed=allowed)
    lab.node("c", "client.7", CLIENT, listens=False, auth=auth)
    lab.node("d", "client.8", CLIENT, listens=False, auth=login(entities, "client.8"))
    lab.start()
    lab.dial("c", "m")
    if lab.is_v1:
        lab.expect_event("c", "m", "connect")
        lab.wait(0.5)
        lab.require(lab.auth("c")["failures"] == ["AUTH_DENIED"], f"{lab.auth('c')['failures']}")
        replies = [r["fields"] for r in lab.frames("m", "MSG")]
        lab.require(len(replies) == 2, f"a challenge and a refusal, there were {len(replies)} messages")
    else:
        lab.expect_event("c", "m", "refused", 2)
        lab.require(set(refusal_codes(lab, "m")) == {-13}, f"codes received: {refusal_codes(lab, 'm')}")
        challenges = lab.frames("m", "AUTH_REPLY_MORE")
        lab.require(len(challenges) >= 2, "everybody is challenged")
    lab.require(lab.auth("c")["tickets"] == {}, "there is no ticket")
    lab.require(lab.auth("c")["global_id"] == 0, "nor a global_id")
    lab.dial("d", "m")
    lab.expect_login("d", "m")


def _other(lab: Lab) -> Any:  # noqa: ANN401 - a KeyType
    return next(
        kind for kind in type(lab.way.key_type) if kind not in {lab.way.key_type, type(lab.way.key_type).NONE}
    )


_CLAIMS: dict[str, dict[str, Any]] = {
    "honest": {"spoil": {}, "insecure": False, "keeps": True},
    "no ticket": {"spoil": {"old_ticket": "none"}, "insecure": False, "keeps": False},
    "forged ticket": {"spoil": {"old_ticket": "forged"}, "insecure": False, "keeps": False},
    "id of another": {"spoil": {"claim": 1}, "insecure": False, "keeps": False},
    "old client": {"spoil": {"old_ticket": "none", "version": 2}, "insecure": False, "keeps": False},
    "old client excused": {"spoil": {"old_ticket": "none", "version": 2}, "insecure": True, "keeps": True},
    "new client not excused": {"spoil": {"old_ticket": "none"}, "insecure": True, "keeps": False},
}


@AU.scenario("AU-14", "global_id_reclaim", ways=_SOME_WAYS, cases=_CLAIMS)
def global_id_reclaim(lab: Lab, spoil: dict[str, Any], *, insecure: bool, keeps: bool) -> None:
    """A client reclaims its global_id only with its old ticket.

    A client that was logged in dials again and claims its global_id with its old ticket, without one, or with a
    forged one, or it claims another client's. Only the first claim succeeds. Clients too old to send the ticket
    may reclaim without it if the monitor's option allows that. A refused client drops its claim and gets a new id.
    """
    cluster(lab, clients=2, insecure_reclaim=insecure)
    for name in "c", "c2":
        lab.dial(name, "m")
        lab.expect_login(name, "m")
    first, second = lab.auth("c")["global_id"], lab.auth("c2")["global_id"]
    lab.require(second == first + 1, f"ids {first} and {second}")
    lab.spoil("c", **spoil)
    lab.mark_down("c", "m")
    lab.dial("c", "m")
    if keeps:
        lab.expect_login("c", "m")
        lab.require(lab.auth("c")["global_id"] == first, f"the id is {lab.auth('c')['global_id']}")
        return
    if lab.is_v1:
        lab.wait(0.5)
        lab.require(lab.auth("c")["failures"] == ["AUTH_DENIED"], f"{lab.auth('c')}")
        lab.spoil("c")
        lab.dial("c", "m")
    else:
        lab.expect_event("c", "m", "refused")
        lab.require(refusal_codes(lab, "m")[0] == -13, f"codes received: {refusal_codes(lab, 'm')}")
        lab.spoil("c")
    lab.expect_login("c", "m")
    lab.require(lab.auth("c")["global_id"] not in {first, second}, "a new id, since the claim was refused")


@AU.scenario("AU-19", "auth_backend_busy", priority=2, ways=_SOME_WAYS)
def auth_backend_busy(lab: Lab) -> None:
    """A monitor outside the quorum drops new logins and serves established sessions.

    A client that dials meanwhile is neither accepted nor refused. On v2 the monitor closes its links without an
    answer, which raises an event, and the client dials again after 0.2 s, 0.4 s and so on; on v1, where MAuth
    messages authenticate an open session, it gets no message. A client that is logged in is served without delay.
    Once the monitor is ready the other client logs in, on v2 with its next dial.
    """
    cluster(lab, clients=2)
    lab.dial("c2", "m")
    lab.expect_login("c2", "m")
    lab.change_auth("m", ready=False)
    lab.dial("c", "m")
    lab.wait(1.0)
    served = lab.delivered("c2", "m")
    lab.send("c2", "m", 3)
    lab.expect_delivered("c2", "m", served + 3, within_s=PATIENCE_S if lab.real_time else 0.1)
    lab.wait(1.0)
    lab.require(not lab.auth("c")["monitors"], "a client was let in meanwhile")
    details = [record["detail"] for record in lab.records("c", "event", event="refused")]
    lab.require(
        not refusal_codes(lab, "m") and all("closed the connection" in why for why in details),
        f"refused: {details}",
    )
    if lab.is_v1:
        answers = lab.records("m", "send", peer="c")
        lab.require(not answers and lab.dials("c") == 1, f"{answers} for {lab.dials('c')} dials")
        lab.mark_down("c", "m")
    else:
        lab.expect_backoff("c", 2 if lab.real_time else 3)
    dials = lab.dials("c")
    lab.change_auth("m", ready=True)
    if lab.is_v1:
        lab.dial("c", "m")
    lab.expect_login("c", "m")
    lab.require(lab.dials("c") == dials + 1, f"c dialled {lab.dials('c') - dials} times to get in")


_HUNTS = ("all alive", "one dead", "one dies", "one slow", "two not ready")


@AU.scenario("AU-20", "hunting_parallel", ways=_SOME_WAYS, cases={name: {"how": name} for name in _HUNTS})
def hunting_parallel(lab: Lab, how: str) -> None:
    """A client that dials several monitors at once, on v1 and v2, keeps one login.

    A client dials six monitors, three on v2 and three on v1. Some are dead, die meanwhile, are slow, or not ready.
    The client keeps one login, whose tickets it holds; the other sessions are marked down, and nothing that they
    still send is handled. The OSD accepts the tickets, and when the kept monitor is killed, the client finds
    another one in the same way.
    """
    entities = {name: lab.entity() for name in ("client.7", "osd.2")}
    monitors = [f"m{number}" for number in range(6)]
    for number, name in enumerate(monitors):
        ids = {"first_global_id": 4100 + 1000 * number, "ready": how != "two not ready" or number not in {0, 3}}
        lab.monitor(name, number, entities, protocols="v2" if number < 3 else "v1", **ids)
    lab.node("o", "osd.2", "stateful_server mon=lossy_client", auth=login(entities, "osd.2"))
    lab.node("c", "client.7", CLIENT, listens=False, auth=login(entities, "client.7"))
    lab.start()
    lab.dial("o", "m5" if lab.is_v1 else "m2")
    lab.expect_secrets("o", 1, 2, 3)
    if how == "one dead":
        lab.kill("m0")
    elif how == "one slow":
        lab.delay("m1", "c", 0.5)
    lab.hunt("c", *monitors)
    if how == "one dies":
        lab.wait(0.004)
        lab.kill("m1")
    kept = _one_kept(lab)
    lab.expect_ticket("c", "osd", 2)
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 2)
    lab.kill(kept)
    lab.hunt("c", *(name for name in monitors if lab.running(name)))
    again = _one_kept(lab)
    lab.require(again != kept, f"{again} is dead")
    lab.send("c", "o", 2)
    lab.expect_delivered("c", "o", 4)


def _one_kept(lab: Lab) -> str:
    """Wait for the end of a hunt; returns the monitor whose login the client kept."""
    lab.expect_hunted("c")
    lab.wait(1.0)
    state = lab.auth("c")
    kept: str = state["monitor"]
    lab.require(state["monitors"] == [kept], f"kept: {state['monitors']}, {kept} was the first")
    lab.require(state["current"] == [kept], f"the tickets that the client holds are not those of {kept}")
    lab.require(state["strays"] == 0, "something was heard of those that were given up")
    return kept


@AU.scenario(
    "AU-21",
    "old_client_no_cephx_v2",
    priority=2,
    ways=V1_WAYS,
    cases={"version 1": {"version": 1}, "version 2": {"version": 2}},
)
def old_client_no_cephx_v2(lab: Lab, version: int) -> None:
    """A client without CEPHX_V2 is admitted or refused by cephx_require_version.

    The client does not know challenges and gets none. If version 2 is required the acceptor replies with the
    missing feature; the client pauses and dials again, with one attempt for each link.
    """
    lab.node(
        "a", "client.7", "lossless_client", listens=False, features_supported=CLIENT_FEATURES & ~Feature.CEPHX_V2
    )
    required = dict.fromkeys(
        ("cephx_require_version", "cephx_cluster_require_version", "cephx_service_require_version"), version
    )
    lab.node("b", "osd.2", "stateful_server", **required)  # type: ignore[arg-type]
    lab.start()
    lab.send("a", "b", 2)
    if version == 1:
        lab.expect_delivered("a", "b", 2)
        tags = [record["fields"]["tag"] for record in lab.frames("b", "CONNECT_REPLY")]
        lab.require("CHALLENGE_AUTHORIZER" not in tags, f"replies: {tags}")
        lab.settle()
        return
    lab.expect_event("a", "b", "refused", 2)
    lab.require({*lab.faults("a")} == {"MISSING_FEATURES"}, f"why it was refused: {lab.faults('a')}")
    replies = [record["fields"]["tag"] for record in lab.frames("b", "CONNECT_REPLY")]
    lab.require(set(replies) == {"FEATURES"}, f"replies: {replies}")
    lab.require(len(replies) == lab.dials("a"), "one reply for each dial")


@AU.scenario(
    "AU-22",
    "markdown_during_auth",
    priority=2,
    ways=ways("v2-crc", "v2-secure", "v2-secure-aes256k", "v2-crc-w2"),
    cases={
        f"{tag} {way}": {"point": f"{tag} {way}"}
        for tag in ("AUTH_REQUEST", "AUTH_REPLY_MORE", "AUTH_REQUEST_MORE", "AUTH_DONE", "AUTH_SIGNATURE")
        for way in ("WRITE", "READ")
    },
)
def markdown_during_auth(lab: Lab, point: str) -> None:
    """A session closed in the middle of authentication stays closed.

    One side is blocked in the exchange while the client marks the session down. The frames of the exchange that
    come afterwards open nothing: no event, no session at the acceptor, no link. A new session with the same peer
    opens as usual.
    """
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    tag, way = point.split()
    from_a = tag in {"AUTH_REQUEST", "AUTH_REQUEST_MORE", "AUTH_SIGNATURE"}
    node = "a" if from_a is (way == "WRITE") else "b"
    lab.arm(node, point, Action.BLOCK)
    lab.dial("a", "b")
    lab.expect_hit(node, point)
    lab.mark_down("a", "b")
    lab.unblock(node)
    lab.wait(1.0)
    lab.expect_events("a", "b")
    lab.expect_events("b", "a")
    for name in "a", "b":
        left = lab.snapshot(name)
        lab.require(left["links"] == left["registry"] == 0, f"left at {name}: {left}")
    lab.send("a", "b", 2)
    lab.expect_delivered("a", "b", 2)
    lab.exchange(count=2)
    lab.settle()
