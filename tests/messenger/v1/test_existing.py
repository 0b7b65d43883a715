"""Decisions about a CONNECT, in the order of docs/protocol.md §3.4; V1-02 to V1-11, LP-22."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.exchange import AuthMethod
from messenger.config import Config
from messenger.denc.address import AddressType, AddrVec, EntityAddr
from messenger.denc.entity import EntityType
from messenger.denc.features import Feature
from messenger.link import Link
from messenger.session.policy import (
    LOSSLESS_CLIENT,
    LOSSLESS_PEER,
    LOSSLESS_PEER_REUSE,
    LOSSY_CLIENT,
    POLICIES,
    STATEFUL_SERVER,
    STATELESS_REGISTERED_SERVER,
    STATELESS_SERVER,
    Policy,
)
from messenger.session.session import Session, SessionState
from messenger.v1.existing import (
    Verdict,
    judge_connect,
    judge_terms,
    protocol_version,
    required_features,
)
from messenger.v1.wire import Connect

LOW = EntityAddr.parse("v1:10.0.0.1:6801/1")
HIGH = EntityAddr.parse("v1:10.0.0.2:6802/2")
MON, OSD, MDS, MGR, CLIENT = (EntityType[name] for name in ("MON", "OSD", "MDS", "MGR", "CLIENT"))


class OpenLink:
    """Stands for a link; only whether it is open counts."""

    def __init__(self, *, is_open: bool) -> None:
        self.open = is_open


def session(
    state: SessionState,
    policy: Policy = LOSSLESS_PEER,
    *,
    peer: EntityAddr = HIGH,
    is_open: bool = True,
    confirmed: bool = True,
    **values: int,
) -> Session:
    """A session with ``peer``; connect_seq 3 and peer_global_seq 5 unless given."""
    existing = Session(1, OSD, AddrVec((peer,)), peer, policy)
    existing.state = state
    existing.confirmed = confirmed
    link: Link = OpenLink(is_open=is_open)  # type: ignore[assignment]
    existing.link = link if state is SessionState.READY else None
    for name, value in ({"connect_seq": 3, "peer_global_seq": 5} | values).items():
        setattr(existing, name, value)
    return existing


def connect(connect_seq: int = 0, *, global_seq: int = 6, method: int = 0, **fields: int) -> Connect:
    values: dict[str, int] = {"features": 0, "host_type": OSD, "protocol_version": 10}
    return Connect(
        **(values | {"global_seq": global_seq, "connect_seq": connect_seq, "authorizer_protocol": method} | fields)  # type: ignore[arg-type]
    )


def verdict(
    existing: Session | None,
    message: Connect,
    policy: Policy | None = None,
    *,
    me: EntityAddr = LOW,
    peer: EntityAddr = HIGH,
    replacing: bool = False,
) -> Verdict:
    policy = policy or (existing.policy if existing else LOSSLESS_PEER)
    decision = judge_connect(existing, message, policy, peer_addr=peer, my_addr=me, replacing=replacing)
    assert decision.why
    return decision.verdict


# ---- steps 1 to 3


@pytest.mark.parametrize(
    ("me", "peer", "connecting", "version"),
    [
        (OSD, OSD, True, 10),
        (MON, MON, False, 13),
        (MDS, MDS, True, 36),
        (CLIENT, CLIENT, True, 0),
        (MGR, MGR, True, 0),
        (CLIENT, OSD, True, 24),
        (CLIENT, MDS, True, 32),
        (OSD, MON, True, 15),
        (CLIENT, MGR, True, 0),
        (OSD, CLIENT, False, 24),
        (MON, OSD, False, 15),
        (MGR, OSD, False, 0),
    ],
)
def test_protocol_versions(me: EntityType, peer: EntityType, version: int, *, connecting: bool) -> None:
    assert protocol_version(me, peer, connecting=connecting) == version


@given(st.sampled_from([MON, OSD, MDS, MGR, CLIENT]), st.sampled_from([MON, OSD, MDS, MGR, CLIENT]))
def test_both_ends_compute_the_same_protocol_version(connector: EntityType, acceptor: EntityType) -> None:
    assert protocol_version(connector, acceptor, connecting=True) == protocol_version(
        acceptor, connector, connecting=False
    )


def test_another_protocol_version_is_refused_before_features_are_looked_at() -> None:
    wrong = judge_terms(connect(protocol_version=24), 10, 1)
    assert wrong is not None
    assert wrong.verdict is Verdict.BADPROTOVER
    missing = judge_terms(connect(features=0b101), 10, 0b110)
    assert missing is not None
    assert (missing.verdict, missing.why) == (Verdict.FEATURES, "the peer lacks 0x2")
    assert judge_terms(connect(features=0b111), 10, 0b110) is None


@pytest.mark.parametrize("peer", [OSD, MDS, MGR])
@pytest.mark.parametrize("option", ["cephx_require_signatures", "cephx_cluster_require_signatures"])
def test_signatures_are_required_of_daemons(option: str, peer: EntityType) -> None:
    config = Config(**{option: True}, cephx_require_version=1, cephx_cluster_require_version=1)
    message = connect(host_type=peer, method=AuthMethod.CEPHX)
    assert required_features(config, LOSSLESS_PEER, message) == Feature.MSG_AUTH


def test_signatures_and_versions_are_required_by_the_kind_of_peer_and_only_with_cephx() -> None:
    lenient = dict.fromkeys(
        ("cephx_require_version", "cephx_cluster_require_version", "cephx_service_require_version"), 1
    )
    policy = LOSSLESS_PEER.requiring(1)
    client = connect(host_type=CLIENT, method=AuthMethod.CEPHX)
    daemon = connect(host_type=OSD, method=AuthMethod.CEPHX)
    assert required_features(Config(), policy, client) == 1 | Feature.CEPHX_V2
    assert required_features(Config(), policy, connect(host_type=CLIENT, method=AuthMethod.NONE)) == 1
    assert required_features(Config(**lenient), policy, client) == 1
    service = Config(**(lenient | {"cephx_service_require_version": 2, "cephx_service_require_signatures": 1}))
    assert required_features(service, policy, client) == 1 | Feature.CEPHX_V2 | Feature.MSG_AUTH
    assert required_features(service, policy, daemon) == 1


# ---- step 5 and step 8


@pytest.mark.parametrize("existing", [None, session(SessionState.READY)])
def test_lossy_clients_that_are_not_registered_are_never_looked_up(existing: Session | None) -> None:
    assert verdict(existing, connect(7), STATELESS_SERVER) is Verdict.OPEN
    assert verdict(None, connect(7), STATELESS_REGISTERED_SERVER) is Verdict.RESETSESSION


def test_a_peer_without_session_gets_one_unless_it_believes_to_have_one() -> None:
    assert verdict(None, connect(0)) is Verdict.OPEN
    assert verdict(None, connect(1)) is Verdict.RESETSESSION
    assert verdict(None, connect(1), replacing=True) is Verdict.OPEN


# ---- step 7, in order


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.name)
@pytest.mark.parametrize("connect_seq", [0, 3, 9])
def test_closed_session_counts_as_no_session(policy: Policy, connect_seq: int) -> None:
    assert verdict(session(SessionState.CLOSED, policy), connect(connect_seq, global_seq=1)) is Verdict.OPEN


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE, LOSSY_CLIENT, STATEFUL_SERVER])
@pytest.mark.parametrize("connect_seq", [0, 3, 9])
def test_while_one_link_takes_over_no_other_one_does(policy: Policy, connect_seq: int) -> None:
    assert verdict(session(SessionState.REPLACING, policy), connect(connect_seq)) is Verdict.RETRY_GLOBAL


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
@pytest.mark.parametrize("policy", [LOSSLESS_PEER_REUSE, LOSSY_CLIENT, STATEFUL_SERVER])
@pytest.mark.parametrize("connect_seq", [0, 2, 3, 4])
def test_outdated_attempt_gets_retry_global_in_every_state(
    state: SessionState, policy: Policy, connect_seq: int
) -> None:
    existing = session(state, policy)
    assert verdict(existing, connect(connect_seq, global_seq=4)) is Verdict.RETRY_GLOBAL
    assert verdict(existing, connect(connect_seq, global_seq=5)) is not Verdict.RETRY_GLOBAL


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.CONNECTING])
@pytest.mark.parametrize("connect_seq", [0, 2, 3, 4])
def test_a_lossy_session_is_replaced(state: SessionState, connect_seq: int) -> None:
    assert verdict(session(state, LOSSY_CLIENT), connect(connect_seq)) is Verdict.STOP_EXISTING


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
def test_connect_seq_0_against_more_is_a_peer_that_lost_its_session(state: SessionState) -> None:
    assert verdict(session(state, LOSSLESS_PEER_REUSE), connect(0)) is Verdict.REPLACE_RESET
    assert verdict(session(state, LOSSLESS_PEER), connect(0)) is Verdict.REPLACE_FRESH


@pytest.mark.parametrize("policy", [LOSSLESS_PEER, LOSSLESS_PEER_REUSE])
def test_unconfirmed_session_is_replaced(policy: Policy) -> None:
    existing = session(SessionState.READY, policy, is_open=False, confirmed=False, connect_seq=1)
    assert verdict(existing, connect(0)) is Verdict.REPLACE


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
def test_an_attempt_that_is_behind_must_catch_up(state: SessionState) -> None:
    assert verdict(session(state, LOSSLESS_PEER_REUSE), connect(2)) is Verdict.RETRY_SESSION


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY])
@pytest.mark.parametrize(("me", "peer"), [(LOW, HIGH), (HIGH, LOW)])
def test_an_equal_attempt_against_an_open_session_is_no_race(
    state: SessionState, me: EntityAddr, peer: EntityAddr
) -> None:
    assert verdict(session(state, LOSSLESS_PEER_REUSE), connect(3), me=me, peer=peer) is Verdict.RETRY_SESSION
    never_open = session(state, LOSSLESS_PEER_REUSE, connect_seq=0)
    assert verdict(never_open, connect(0), me=me, peer=peer) is Verdict.REPLACE
    unchecked = session(state, LOSSLESS_PEER, connect_seq=0)
    assert verdict(unchecked, connect(0), me=me, peer=peer) is Verdict.RETRY_SESSION


@pytest.mark.parametrize("connect_seq", [0, 3])
@pytest.mark.parametrize(
    ("state", "is_open"),
    [(SessionState.CONNECTING, True), (SessionState.WAIT, True), (SessionState.READY, False)],
)
def test_a_race_goes_to_the_dial_from_the_lower_address(
    state: SessionState, connect_seq: int, *, is_open: bool
) -> None:
    existing = session(state, connect_seq=connect_seq, is_open=is_open)
    assert verdict(existing, connect(connect_seq), me=LOW, peer=HIGH) is Verdict.WAIT
    assert verdict(existing, connect(connect_seq), me=HIGH, peer=LOW) is Verdict.REPLACE


def test_a_server_never_wins_a_race_since_it_does_not_dial() -> None:
    existing = session(SessionState.CONNECTING, STATEFUL_SERVER)
    assert verdict(existing, connect(3), me=LOW, peer=HIGH) is Verdict.REPLACE


@pytest.mark.parametrize("state", [SessionState.READY, SessionState.STANDBY, SessionState.CONNECTING])
def test_an_attempt_that_is_ahead_takes_over_unless_this_side_lost_its_session(state: SessionState) -> None:
    assert verdict(session(state, LOSSLESS_PEER_REUSE), connect(4)) is Verdict.REPLACE
    assert verdict(session(state, LOSSLESS_PEER_REUSE, connect_seq=0), connect(4)) is Verdict.RESETSESSION
    assert verdict(session(state, LOSSLESS_PEER, connect_seq=0), connect(4)) is Verdict.REPLACE


def test_resetcheck_is_that_of_the_policy_towards_the_connector() -> None:
    existing = session(SessionState.STANDBY, LOSSLESS_PEER, connect_seq=0)
    assert verdict(existing, connect(4), LOSSLESS_PEER_REUSE) is Verdict.RESETSESSION


# ---- both sides agree

ADDRS = st.builds(
    lambda ip, port, nonce: EntityAddr.from_host(ip, port, AddressType.LEGACY, nonce),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "2.0.0.10", "fd00::1", "fd00::2"]),
    st.sampled_from([1, 256, 6800, 6801]),
    st.sampled_from([0, 1, 256, 2**32 - 1]),
)


@given(st.tuples(ADDRS, ADDRS).filter(lambda pair: pair[0] != pair[1]), st.sampled_from([0, 2]))
def test_exactly_one_of_two_dials_wins_any_race(pair: tuple[EntityAddr, EntityAddr], connect_seq: int) -> None:
    """Whatever the addresses, both sides compute the same winner."""
    a, b = pair
    at_a = session(SessionState.CONNECTING, LOSSLESS_CLIENT, connect_seq=connect_seq)
    at_b = session(SessionState.CONNECTING, LOSSLESS_CLIENT, connect_seq=connect_seq)
    verdicts = {
        verdict(at_a, connect(connect_seq), me=a, peer=b),
        verdict(at_b, connect(connect_seq), me=b, peer=a),
    }
    assert verdicts == {Verdict.REPLACE, Verdict.WAIT}
