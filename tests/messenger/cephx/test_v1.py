"""Authorizers in the CONNECT of v1 (docs/protocol.md §3.3, §3.4 steps 2 and 4; family V1 and AU)."""

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthClient, AuthDone, AuthMethod, AuthMore, AuthResult, AuthStep, ConMode
from messenger.cephx.key_server import MON_NAME
from messenger.cephx.minting import MintingClient
from messenger.cephx.negotiation import ClientAuth, ServerAuth
from messenger.cephx.none import NoneClient, NoneServer
from messenger.cephx.refusal import Refusal, RefusedError
from messenger.cephx.service import CephxService
from messenger.cephx.signature import message_signer
from messenger.cephx.structures import NAMED_KEY_SECRET_ID
from messenger.cephx.tickets import ServiceKey
from messenger.cephx.v1 import CephxRequirements, connect_exchange, judge_connect
from messenger.denc.entity import EntityType
from messenger.denc.features import ALL_FEATURES, Feature
from messenger.errors import DecodeError
from tests.support.cephx import ADMIN, AES, AES256K, GUEST, NOW_S, OSD_0, Cluster

MON, OSD, MDS, MGR, CLIENT = (EntityType[name] for name in ("MON", "OSD", "MDS", "MGR", "CLIENT"))
CEPHX, NONE = AuthMethod.CEPHX, AuthMethod.NONE
WITHOUT_V2 = ALL_FEATURES & ~Feature.CEPHX_V2
CRC = ConMode.CRC


def refused(what: Refusal):
    return pytest.raises(RefusedError, check=lambda error: error.refusal is what)


class Link:
    """One link of v1: CONNECTs with authorizers, and what becomes of them."""

    def __init__(
        self,
        cluster: Cluster,
        client: AuthClient | None = None,
        *,
        server: object = None,
        own_type: EntityType = OSD,
        peer_type: EntityType = CLIENT,
        features: int = ALL_FEATURES,
        require_authorizer: bool = True,
    ) -> None:
        client = client or logged_in(cluster)
        server = server or CephxService(OSD, cluster.keys.secrets(OSD))
        self.mine = connect_exchange(client, peer_type, own_type, NOW_S, cluster.rng)
        self.theirs = server.exchange(peer_type, NOW_S, cluster.rng)
        self.types = own_type, peer_type
        self.features = features
        self.require_authorizer = require_authorizer

    def judge(self, authorizer: bytes, protocol: int = CEPHX) -> AuthStep:
        return judge_connect(
            self.theirs,
            *self.types,
            protocol=protocol,
            authorizer=authorizer,
            features=self.features,
            require_authorizer=self.require_authorizer,
        )

    def open(self) -> tuple[AuthResult, AuthResult]:
        opening = self.mine.start()
        step = self.judge(opening.payload, opening.method)
        if isinstance(step, AuthMore):
            step = self.judge(self.mine.more(step.payload))
        assert isinstance(step, AuthDone)
        return self.mine.done(0, CRC, step.payload), step.result


def logged_in(cluster: Cluster) -> CephxClient:
    client = cluster.client()
    cluster.login(client)
    return client


@pytest.mark.parametrize("features", [ALL_FEATURES, WITHOUT_V2])
@pytest.mark.parametrize("service_type", [AES, AES256K])
@pytest.mark.parametrize("principal_type", [AES, AES256K])
def test_both_sides_agree(principal_type: KeyType, service_type: KeyType, features: int) -> None:
    link = Link(Cluster(principal_type, service_type), features=features)
    mine, theirs = link.open()
    assert (mine.session_key, mine.session_key_type) == (theirs.session_key, theirs.session_key_type)
    assert mine.session_key_type == principal_type
    assert mine.connection_secret == theirs.connection_secret == b""
    assert (theirs.name, theirs.global_id, mine.global_id) == (ADMIN, 4100, 4100)
    signers = [message_signer(result, features) for result in (mine, theirs)]
    assert len({sign(1, 2, 3, 4, 5, 6, 7, 8) for sign in signers}) == 1


@pytest.mark.parametrize(("key_type", "sizes"), [(AES, (174, 32, 174, 36)), (AES256K, (258, 58, 258, 62))])
def test_payloads_are_those_of_v2(key_type: KeyType, sizes: tuple[int, ...]) -> None:
    link = Link(Cluster(key_type, key_type))
    first = link.mine.start().payload
    challenge = link.judge(first).payload
    second = link.mine.more(challenge)
    assert (len(first), len(challenge), len(second), len(link.judge(second).payload)) == sizes


def test_a_peer_without_cephx_v2_is_not_challenged() -> None:
    link = Link(Cluster(), features=WITHOUT_V2)
    assert isinstance(link.judge(link.mine.start().payload), AuthDone)


def test_peer_with_cephx_v2_is_challenged_for_any_authorizer() -> None:
    cluster = Cluster()
    recorded = Link(cluster)
    first = recorded.mine.start().payload
    second = recorded.mine.more(recorded.judge(first).payload)
    for authorizer in (first, second):
        assert isinstance(Link(cluster).judge(authorizer), AuthMore)


def test_replayed_answer() -> None:
    cluster = Cluster()
    recorded = Link(cluster)
    first = recorded.mine.start().payload
    second = recorded.mine.more(recorded.judge(first).payload)
    recorded.judge(second)
    link = Link(cluster)
    link.judge(first)
    with refused(Refusal.CHALLENGE_MISMATCH):
        link.judge(second)
    assert isinstance(link.judge(second), AuthMore), "and there is one try per challenge"


def test_further_connects_of_one_link() -> None:
    """After RETRY_SESSION and the like a client repeats its authorizer, or starts again."""
    link = Link(Cluster())
    first = link.mine.start().payload
    second = link.mine.more(link.judge(first).payload)
    assert isinstance(link.judge(second), AuthDone)
    assert isinstance(link.judge(second), AuthDone)
    again = link.judge(link.mine.start().payload)
    assert isinstance(again, AuthMore)
    done = link.judge(link.mine.more(again.payload))
    assert isinstance(done, AuthDone)
    assert link.mine.done(0, CRC, done.payload).session_key == done.result.session_key


def test_replies_that_carry_an_authorizer_before_the_last_one() -> None:
    link = Link(Cluster())
    done = link.judge(link.mine.more(link.judge(link.mine.start().payload).payload))
    for _ in range(2):
        assert link.mine.done(0, CRC, done.payload).session_key == done.result.session_key


def test_a_reply_must_carry_an_authorizer() -> None:
    link = Link(Cluster())
    link.open()
    with pytest.raises(DecodeError):
        link.mine.done(0, CRC, b"")


def test_badauthorizer_costs_the_ticket() -> None:
    cluster = Cluster()
    client = logged_in(cluster)
    link = Link(cluster, client)
    link.mine.start()
    with refused(Refusal.REFUSED):
        link.mine.bad_method(-13, [])
    assert client.services_to_renew(NOW_S) == OSD


# ---- no authorizer


@pytest.mark.parametrize("peer_type", [CLIENT, OSD, MDS, MGR])
def test_monitors_accept_peers_without_authorizer(peer_type: EntityType) -> None:
    cluster = Cluster()
    link = Link(cluster, cluster.client(), server=cluster.server, own_type=MON, peer_type=peer_type)
    opening = link.mine.start()
    assert (opening.method, opening.payload) == (0, b"")
    mine, theirs = link.open()
    assert mine == theirs == AuthResult(0)
    assert message_signer(mine, ALL_FEATURES) is None


def test_monitors_refuse_other_monitors_without_authorizer() -> None:
    cluster = Cluster()
    keys = {MON: ServiceKey(NAMED_KEY_SECRET_ID, cluster.key(MON_NAME))}
    link = Link(cluster, MintingClient(MON_NAME, 0, keys), server=cluster.server, own_type=MON, peer_type=MON)
    with refused(Refusal.NO_AUTHORIZER):
        link.judge(b"", 0)
    mine, theirs = link.open()
    assert mine.session_key == theirs.session_key != b""
    assert theirs.name == MON_NAME


@pytest.mark.parametrize("peer_type", [CLIENT, OSD, MON])
def test_services_refuse_peers_without_authorizer(peer_type: EntityType) -> None:
    with refused(Refusal.NO_AUTHORIZER) as raised:
        Link(Cluster(), peer_type=peer_type).judge(b"", 0)
    assert raised.value.errno == 13


def test_services_accept_no_authorizer_if_none_is_required() -> None:
    link = Link(Cluster(), require_authorizer=False)
    assert link.judge(b"", 0) == AuthDone(b"", AuthResult(0))
    link.open()
    with pytest.raises(DecodeError):
        link.judge(b"\1")


def test_challenge_or_reply_of_a_monitor_is_refused() -> None:
    cluster = Cluster()
    mine = connect_exchange(cluster.client(), CLIENT, MON, NOW_S, cluster.rng)
    for use in (lambda: mine.more(b"challenge"), lambda: mine.done(0, CRC, b"reply")):
        with refused(Refusal.UNEXPECTED_REPLY):
            use()
    with refused(Refusal.REFUSED):
        mine.bad_method(-13, [])


# ---- methods


def test_none() -> None:
    link = Link(Cluster(), NoneClient(GUEST, 4105), server=NoneServer())
    mine, theirs = link.open()
    assert (theirs.name, theirs.global_id, mine.session_key) == (GUEST, 4105, b"")


@pytest.mark.parametrize("method", [NONE, CEPHX])
def test_several_methods(method: AuthMethod) -> None:
    cluster = Cluster()
    client = ClientAuth({method: logged_in(cluster) if method is CEPHX else NoneClient(ADMIN, 4100)})
    server = ServerAuth({CEPHX: CephxService(OSD, cluster.keys.secrets(OSD)), NONE: NoneServer()})
    assert Link(cluster, client, server=server).open()[1].name == ADMIN


@pytest.mark.parametrize("protocol", [0, 1, 4, 99, 0xFFFFFFFF])
def test_methods_that_are_not_allowed(protocol: int) -> None:
    with refused(Refusal.METHOD_NOT_ALLOWED):
        Link(Cluster()).judge(b"something", protocol)


def test_monitors_and_none() -> None:
    cluster = Cluster()
    client = NoneClient(MON_NAME)
    link = Link(cluster, client, server=cluster.server, own_type=MON, peer_type=MON)
    with refused(Refusal.METHOD_NOT_ALLOWED):
        link.open()
    cluster.server.cluster_required = (NONE,)
    assert Link(cluster, client, server=cluster.server, own_type=MON, peer_type=MON).open()[1].name == MON_NAME


def test_authorizers_cut_at_every_byte() -> None:
    cluster = Cluster()
    authorizer = Link(cluster).mine.start().payload
    for size in range(1, len(authorizer)):
        with pytest.raises((DecodeError, RefusedError)):
            Link(cluster).judge(authorizer[:size])


# ---- features


@pytest.mark.parametrize(
    ("options", "peer_type", "features"),
    [
        ({}, CLIENT, Feature.CEPHX_V2),
        ({}, OSD, Feature.CEPHX_V2),
        ({"cephx_require_version": 1, "cephx_service_require_version": 1}, CLIENT, 0),
        ({"cephx_require_version": 1, "cephx_service_require_version": 1}, MON, 0),
        ({"cephx_require_version": 1, "cephx_service_require_version": 1}, OSD, Feature.CEPHX_V2),
        ({"cephx_require_version": 1, "cephx_cluster_require_version": 1}, MGR, 0),
        ({"cephx_require_version": 1}, CLIENT, Feature.CEPHX_V2),
        ({"cephx_require_signatures": True}, CLIENT, Feature.CEPHX_V2 | Feature.MSG_AUTH),
        ({"cephx_cluster_require_signatures": True}, MDS, Feature.CEPHX_V2 | Feature.MSG_AUTH),
        ({"cephx_cluster_require_signatures": True}, CLIENT, Feature.CEPHX_V2),
        ({"cephx_service_require_signatures": True}, CLIENT, Feature.CEPHX_V2 | Feature.MSG_AUTH),
        ({"cephx_service_require_signatures": True}, OSD, Feature.CEPHX_V2),
    ],
)
def test_required_features(options: dict[str, object], peer_type: EntityType, features: int) -> None:
    assert CephxRequirements(**options).features(peer_type) == features


def test_daemons_among_themselves() -> None:
    cluster = Cluster()
    osd = cluster.client(OSD_0)
    cluster.login(osd)
    assert Link(cluster, osd, peer_type=OSD).open()[1].name == OSD_0
