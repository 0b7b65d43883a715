"""Nodes with other credentials than the shared key: monitors, logins, tickets, and what is wrong with them."""

import pytest

from messenger.cephx.exchange import AuthMethod
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.errors import LocalError
from toolkit.errors import ScenarioFailed
from toolkit.lab.lab import Lab
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.node import NodeSpec
from toolkit.node.auth import Credentials
from toolkit.scenarios.authentication.login_cluster import cluster, enter

WAYS = ["v2-crc", "v2-secure-aes256k", "v1", "v1-w2"]


@pytest.fixture(params=WAYS)
def lab(request: pytest.FixtureRequest) -> Lab:
    return SimLab(request.param)


def spec(**auth: object) -> NodeSpec:
    """A node with such credentials."""
    lab = SimLab("v2-crc")
    lab.node("a", "osd.1", "lossless_peer", auth=auth)
    return next(iter(lab._specs.values()))


def test_a_login_gets_tickets_and_a_daemon_its_keys(lab: Lab) -> None:
    cluster(lab)
    assert lab.auth("o")["secrets"] == [1, 2, 3]
    enter(lab)
    state = lab.auth("c")
    assert (state["monitors"], state["current"], state["failures"]) == (["m"], ["m"], [])
    assert set(state["tickets"]) == {"auth", "mon", "osd", "mds", "mgr"}


def test_rotated_keys_come_with_the_next_tick(lab: Lab) -> None:
    cluster(lab)
    lab.wait(140)
    lab.renew("o")
    lab.expect_secrets("o", 2, 3, 4)
    with pytest.raises(ScenarioFailed, match="service keys"):
        lab.expect_secrets("o", 3, 4, 5)


def test_credentials_survive_no_restart(lab: Lab) -> None:
    cluster(lab)
    enter(lab)
    lab.kill("c")
    lab.revive("c")
    assert lab.auth("c")["tickets"] == {}
    lab.dial("c", "m")
    lab.expect_login("c", "m")


def test_methods_of_both_sides() -> None:
    both = Credentials(spec(offers=["cephx", "none"], allows=["none"]))
    assert isinstance(both.client, ClientAuth)
    assert list(both.client.methods) == [AuthMethod.CEPHX, AuthMethod.NONE]
    assert not isinstance(both.server, ServerAuth)
    assert isinstance(Credentials(spec(methods=["none", "cephx"])).server, ServerAuth)


@pytest.mark.parametrize(
    ("auth", "what"),
    [
        ({"methods": ["kerberos"]}, "unknown authentication method 'kerberos'"),
        ({"metods": []}, "unknown metods; known: allowed, allows"),
        ({"entities": {}, "allowed": ["des"]}, "unknown cipher 'des'"),
    ],
)
def test_meaningless_options_are_errors(auth: dict[str, object], what: str) -> None:
    with pytest.raises(LocalError, match=what):
        Credentials(spec(**auth))


def test_unknown_commands_are_errors() -> None:
    lab = SimLab("v2-crc")
    lab.two()
    with pytest.raises(LocalError, match="unknown command 'forge'"):
        lab.app("a").auth("forge")


@pytest.mark.parametrize(
    "what", [{"silent": True}, {"answer": 1}, {"ticket": (30, 1)}, {"global_id": 3}, {"keep_bytes": 20}]
)
def test_spoiled_authorizers_are_refused_until_they_are_restored(lab: Lab, what: dict[str, object]) -> None:
    lab.two("lossless_client", "stateful_server", "client.7", "osd.2")
    lab.spoil("a", **what)
    lab.send("a", "b")
    lab.expect_broken("a", 1)
    lab.wait(1)
    assert lab.delivered("a", "b") == 0
    lab.spoil("a")
    lab.expect_delivered("a", "b", 1)


def test_hunt_keeps_one_monitor_connection(lab: Lab) -> None:
    entities = {"client.7": lab.entity()}
    for number in range(3):
        lab.monitor(f"m{number}", number, entities, first_global_id=5000 + 100 * number)
    login = {"login": {"name": "client.7", "key": entities["client.7"]["key"]}}
    lab.node("c", "client.7", "lossy_client", listens=False, auth=login)
    lab.start()
    lab.hunt("c", "m0", "m1", "m2")
    lab.expect_hunted("c")
    kept = lab.auth("c")["monitor"]
    lab.wait(1)
    assert lab.auth("c")["monitors"] == lab.auth("c")["current"] == [kept]


def test_kept_tickets_are_used_until_refused_or_due(lab: Lab) -> None:
    mints = {"validity_s": 120.0, "keeps": True}
    lab.node("a", "client.7", "lossless_client", listens=False, auth={"mints": mints})
    lab.node("b", "osd.2", "stateful_server")
    lab.start()
    sends = 0

    def resume() -> int:
        """The refusals that a resumed session takes."""
        nonlocal sends
        before, sends = lab.faults("a").count("AUTH_DENIED"), sends + 1
        lab.cut("a", "b")
        lab.send("a", "b")
        lab.expect_delivered("a", "b", sends)
        lab.expect_acked("a")
        return lab.faults("a").count("AUTH_DENIED") - before

    assert resume() == 0
    key = lab.new_key()
    lab.change_auth("a", mints={**mints, "secret_id": 2, "key": key})
    assert resume() == 0, "the ticket at hand is by the old key, which b knows"
    lab.change_auth("b", secrets={"2": key})
    assert resume() == 1, "another is made once that one is refused"
    assert resume() == 0
    lab.wait(100)
    assert resume() == 0, "or once three quarters of its life are over"


def test_client_makes_no_tickets(lab: Lab) -> None:
    cluster(lab)
    with pytest.raises(LocalError, match="makes no tickets itself"):
        lab.change_auth("c", mints={})
