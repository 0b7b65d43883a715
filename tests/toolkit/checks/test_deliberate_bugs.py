"""Messengers with a bug put in on purpose: the check that is for it finds it, and nothing without it."""

from functools import total_ordering

import pytest

from messenger.cephx.authorizer import OpenedAuthorizer, open_authorizer
from messenger.cephx.exchange import ConMode
from messenger.cephx.service import CephxServiceExchange
from messenger.config import Config
from messenger.core import Core
from messenger.denc.address import EntityAddr
from messenger.errors import MsgrError
from messenger.form import MESSENGER
from messenger.keepalive import Keepalive
from messenger.link import Link, Protocol
from messenger.outputs import EventKind
from messenger.session.existing import judge_reconnect
from messenger.v1.existing import judge_connect
from messenger.v2.link import V2Link
from messenger.v2.onwire import StreamCipher
from messenger.v2.revision import crc_frames
from toolkit.checks.canary import Canary
from toolkit.checks.history import NETWORK, History
from toolkit.checks.invariants import check
from toolkit.errors import ScenarioFailed
from toolkit.faults.tap import Breakpoint
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.lab.sim.sim_node import SimNode
from toolkit.lab.ways import Way
from toolkit.node.auth import _Minting
from toolkit.scenarios.catalogue import select
from toolkit.scenarios.runner import run_scenario

SCENARIOS = {scenario.id: scenario for scenario in select("TOUR")}


def broken(history) -> set[str]:
    return {result.name for result in check(history) if not result.ok}


def recorded(name: str, mode: str = "secure", protocol: Protocol = Protocol.V2) -> History:
    """A scenario's history, whether or not the scenario gets to its end."""
    return run_scenario(SCENARIOS[name], "sim", Way(protocol, mode), 1).history


def new_lab(mode: str = "crc", protocol: Protocol = Protocol.V2, seed: int = 1) -> SimLab:
    return SimLab(Way(protocol, mode), seed)


def scenario(name: str, mode: str = "secure") -> set[str]:
    """Return the invariants that a scenario's history violates."""
    return broken(recorded(name, mode))


def peers(mode: str = "crc", protocol: Protocol = Protocol.V2, policy: str = "lossless_peer", **options) -> SimLab:
    lab = new_lab(mode, protocol)
    lab.node("a", "osd.1", policy, **options)
    lab.node("b", "osd.2", policy, **options)
    lab.start("a", "b")
    return lab


# ---- keys, modes, tickets


def test_the_key_of_the_last_link_is_used_again(monkeypatch):
    assert scenario("reconnect") == set()
    monkeypatch.setattr("messenger.cephx.service.new_connection_secret", lambda _mode, _rng: bytes(range(64)))
    assert {"nonce_unique", "sealed"} <= scenario("reconnect")


@pytest.mark.skipif(MESSENGER.form == "compiled", reason="methods of compiled classes cannot be replaced")
def test_the_nonce_does_not_step(monkeypatch):
    def stuck(self: StreamCipher) -> bytes:
        return self.first_nonce

    monkeypatch.setattr(StreamCipher, "_next_nonce", stuck)
    assert {"nonce_unique", "sealed"} <= scenario("reconnect")


def test_missing_encryption_in_secure_mode_is_detected(monkeypatch):
    def unsealed(features, limit, _secret, caches, *, connector):
        return crc_frames(features, limit, caches)

    monkeypatch.setattr("messenger.v2.link.secure_frames", unsealed)
    assert {"no_plaintext", "sealed"} <= scenario("standby")


def listened_to(mode: str) -> set[str]:
    lab = peers(mode)
    canary = Canary()

    def on_bytes(wire, direction, chunk):
        if canary.feed((id(wire), direction), chunk):
            lab.history.append(lab.clock.now_s, NETWORK, "leak", a="a", b="b", detail="payload")

    lab.network.on_bytes = on_bytes
    lab.send("a", "b", count=3)
    lab.expect_delivered("a", "b", 3)
    lab.settle()
    return broken(lab.history)


def test_payload_shows_on_the_wire_in_crc_mode_only():
    assert listened_to("secure") == set()
    assert listened_to("crc") == {"no_plaintext", "sealed"}


def test_choice_of_a_worse_mode_is_detected(monkeypatch):
    both = dict.fromkeys(("ms_cluster_mode", "ms_service_mode", "ms_client_mode"), "secure crc")
    monkeypatch.setattr(Config, "only_mode", classmethod(lambda cls, _mode, **options: cls(**both, **options)))
    assert scenario("standby") == set()
    monkeypatch.setattr("messenger.v2.acceptor._allowed_modes", lambda _link, _method: (ConMode.CRC,))
    assert scenario("standby") == {"no_downgrade"}


def test_use_of_an_expired_ticket_is_detected(monkeypatch):
    """Tickets are good for a millisecond, less than a handshake takes."""

    def short(name, num, keys, spoiler, **_others):
        return _Minting(name, num, keys, spoiler, validity_s=0.001, keeps=False)

    monkeypatch.setattr("toolkit.node.auth._Minting", short)
    assert scenario("standby", "crc") == {"ticket_time"}, "refused, and none is renewed"

    def trusting(self: CephxServiceExchange, payload: bytes) -> OpenedAuthorizer:
        return open_authorizer(payload, self._service_keys)

    monkeypatch.setattr(CephxServiceExchange, "_open", trusting)
    assert scenario("standby", "crc") == {"ticket_time"}


# ---- changed bytes


def mangled(mode: str, protocol: Protocol) -> set[str]:
    """A byte of a message's payload is changed on the way, once."""
    lab = peers(mode, protocol)
    tag = "MSG" if protocol is Protocol.V1 else "MESSAGE"
    write_link = SimNode.write_link
    done = []

    def write(node: SimNode, link_id: int, buffers: list) -> None:
        last = next((r for r in reversed(lab.history.records) if r.kind == "frame"), None)
        if not done and node.name == "a" and last is not None and last["tag"] == tag and last["direction"] == "tx":
            raw = bytearray(b"".join(buffers))
            raw[-60] ^= 0x10
            buffers = [bytes(raw)]
            at = {"sender": "a", "tag": tag, "nth": 1, "index": last["index"], "offset": last["offset"]}
            done.append(last)
            lab.history.append(
                lab.clock.now_s, NETWORK, "mangle", a="a", b="b", at=at | {"byte": -60}, what="flip"
            )
        write_link(node, link_id, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimNode, "write_link", write)
        lab.send("a", "b", count=3, size_bytes=200)
        try:
            lab.expect_delivered("a", "b", 3)
            lab.settle()
        except ScenarioFailed:
            pass
    assert done
    return broken(lab.history)


WIRES = [("secure", Protocol.V2), ("crc", Protocol.V2), ("crc", Protocol.V1)]


@pytest.mark.parametrize(("mode", "protocol"), WIRES)
def test_receivers_reject_a_changed_byte(mode, protocol):
    assert mangled(mode, protocol) == set()


@pytest.mark.parametrize("protocol", Protocol)
def test_missing_crc_check_is_detected(monkeypatch, protocol):
    monkeypatch.setattr("messenger.v2.framing.crc32c", lambda *_args: 0xFFFFFFFF)
    monkeypatch.setattr("messenger.v2.framing.standard_crc32c", lambda *_args: 0)
    monkeypatch.setattr("messenger.v1.framing.standard_crc32c", lambda *_args: 0)
    assert {"reject_forged", "payload", "exactly_once_lossless"} <= mangled("crc", protocol)


# ---- sessions


def test_cookies_are_not_random(monkeypatch):
    monkeypatch.setattr("messenger.v2.acceptor.nonzero_u64", lambda _rng: 0x5E)
    assert "cookies" in scenario("session-reset")


def test_missing_remote_reset_is_found(monkeypatch):
    original = Core.session_event

    def silent(self, session, kind, fault, now):
        if kind is not EventKind.REMOTE_RESET:
            original(self, session, kind, fault, now)

    monkeypatch.setattr(Core, "session_event", silent)
    assert scenario("session-reset") == {"no_stale_session", "seq_accounting"}


def both_dial(protocol: Protocol) -> set[str]:
    """Both sides dial at once, again and again."""
    found: set[str] = set()
    for seed in range(8):
        lab = new_lab("crc", protocol, seed)
        lab.node("a", "osd.1", "lossless_peer")
        lab.node("b", "osd.2", "lossless_peer")
        lab.start("a", "b")
        for _ in range(3):
            lab.send("a", "b")
            lab.send("b", "a")
            lab.wait(0.02)
            lab.cut("a", "b")
            lab.wait(0.02)
        try:
            lab.settle()
        except ScenarioFailed:
            continue
        finally:
            found |= broken(lab.history)
    return found


@total_ordering
class Reversed:
    """Sorts the other way round."""

    def __init__(self, key: tuple) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: "Reversed") -> bool:
        return other.key < self.key


def reversing(judge):
    """A decision that takes the lower address for the higher one; nothing else is sorted meanwhile."""
    sort_key = EntityAddr.sort_key

    def judged(*args, **kwargs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EntityAddr, "sort_key", lambda addr: Reversed(sort_key(addr)))
            return judge(*args, **kwargs)

    return judged


@pytest.mark.parametrize("protocol", Protocol)
def test_the_higher_address_wins_races(monkeypatch, protocol):
    assert both_dial(protocol) == set()
    monkeypatch.setattr("messenger.v2.acceptor.judge_reconnect", reversing(judge_reconnect))
    monkeypatch.setattr("messenger.v1.acceptor.judge_connect", reversing(judge_connect))
    assert "one_winner" in both_dial(protocol)


# ---- resources and liveness


def test_leaked_timers_of_closed_links_are_detected(monkeypatch):
    end = Link.end

    def forgetful(self: Link) -> None:
        self.idle_timer = self.ready_timer = None
        end(self)

    monkeypatch.setattr(Link, "end", forgetful)
    assert {"quiescence", "frugal"} <= scenario("reconnect")


def strangers() -> set[str]:
    lab = peers()
    lab._command("a", "connect", peer="b")
    lab.wait(30.0)
    lab.wait(0.0)  # so that the history lasts until now
    return broken(lab.history)


def test_missing_handshake_timeout_is_detected(monkeypatch):
    start = V2Link.start

    def mute(self: V2Link, now: float) -> None:
        if not self.connector:
            start(self, now)

    monkeypatch.setattr(V2Link, "start", mute)
    assert strangers() == set()
    monkeypatch.setattr(Core, "await_ready", lambda _core, _link, _now: None)
    assert strangers() == {"frugal", "link_timeouts"}


def silent_peer() -> set[str]:
    lab = peers()
    lab.connect("a", "b")
    app = lab.app("a")
    app.driver.keep_alive(app._connection("b"), 1.0, 3.0)
    lab.wait(20.0)
    return broken(lab.history)


def test_a_silent_peer_is_kept(monkeypatch):
    monkeypatch.setattr(V2Link, "keepalive_reply", property(lambda _link: None, lambda _link, _frame: None))
    assert silent_peer() == set()
    monkeypatch.setattr(Keepalive, "_is_watched", False)
    assert silent_peer() == {"keepalive"}


def slow_to_dial(**options) -> set[str]:
    lab = peers(**options)
    lab.connect("a", "b")
    lab.cut_at("a", "b", Breakpoint("b", "HELLO", 1, 0))
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 1)
    lab.settle()
    return broken(lab.history)


def test_pauses_are_longer_than_the_longest():
    assert slow_to_dial(ms_max_backoff=0.5) == set()
    assert slow_to_dial(ms_initial_backoff=15.0, ms_max_backoff=0.1) == {"liveness_after_heal"}


def test_a_dispatcher_raises():
    lab = peers()
    lab.connect("a", "b")

    def raising(_connection, _message):
        raise MsgrError("no more")

    lab.app("b").driver.dispatchers.dispatch = raising
    lab.send("a", "b")
    with pytest.raises(MsgrError, match="no more"):
        lab.wait(1.0)
    assert broken(lab.history) == {"table_total"}
    (record,) = lab.history.of("exception")
    assert (record.node, record["error"], record["session"]) == ("b", "MsgrError: no more", 1)


# ---- captures


@pytest.mark.parametrize(("mode", "protocol"), WIRES)
@pytest.mark.parametrize("kinds", [("frame",), ("frame", "link"), ("frame", "state"), ("send", "deliver")])
def test_part_of_a_valid_history_violates_no_invariant(mode, protocol, kinds):
    history = recorded("reconnect", mode, protocol)
    assert broken(history.of(*kinds)) == set()
    assert broken(history.node("a")) == set()


def test_prefix_of_a_valid_history_violates_no_invariant():
    """As it was until some moment, judged for safety only."""
    history = recorded("reconnect")
    for end in range(0, len(history), 3):
        part = History(history.records[:end])
        assert broken(part) == set(), end
