"""A cluster as far as authentication goes, and conversations with its monitors."""

from collections.abc import Iterable
from random import Random

from messenger.cephx.ciphers import KeyType
from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthDone, AuthMore, AuthResult, ConMode
from messenger.cephx.key_server import MON_NAME, CipherPolicy, KeyServer, Principal
from messenger.cephx.keys import CryptoKey
from messenger.cephx.mauth import MAuthAnswer, MAuthRequest
from messenger.cephx.mauth_client import MonAuthClient
from messenger.cephx.mauth_server import MonAuthSession
from messenger.cephx.mon_server import MonAuthServer
from messenger.denc.entity import AuthName, EntityType

NOW_S = 1_700_000_000.0
HOUR_S = 3600.0
ADMIN = AuthName(EntityType.CLIENT, "admin")
GUEST = AuthName(EntityType.CLIENT, "guest")
OSD_0 = AuthName(EntityType.OSD, "0")
MGR_X = AuthName(EntityType.MGR, "x")
ALL_CAPS = {"mon": "allow *", "osd": "allow *", "mgr": "allow *", "mds": "allow *"}
AES, AES256K = KeyType.AES, KeyType.AES256KRB5


class Cluster:
    """One monitor, its keys, and those of a few entities."""

    def __init__(
        self, principal: KeyType = AES, service: KeyType = AES, *, seed: int = 1, **key_server: object
    ) -> None:
        self.rng = Random(seed)
        policy = CipherPolicy(service=service)
        self.keys = KeyServer({}, Random(seed + 1), policy=policy, **key_server)
        for name in (ADMIN, OSD_0, MGR_X):
            self.keys.add(name, ALL_CAPS, NOW_S, principal)
        self.keys.add(GUEST, {"mon": "allow r"}, NOW_S, principal)
        self.keys.add(MON_NAME, ALL_CAPS, NOW_S, principal)
        self.server = MonAuthServer(self.keys)

    def key(self, name: AuthName) -> CryptoKey:
        return self.keys.principals[name].key

    def set_principal(self, name: AuthName, principal: Principal) -> None:
        self.keys.principals[name] = principal

    def client(self, name: AuthName = ADMIN, wanted: int = 0x35) -> CephxClient:
        return CephxClient(name, self.key(name), wanted)

    def login(
        self, client: CephxClient, mode: ConMode = ConMode.CRC, now_s: float = NOW_S
    ) -> tuple[AuthResult, AuthResult]:
        """The handshake of v2; what the client and what the monitor make of it."""
        mine = client.exchange(EntityType.MON, now_s, self.rng)
        theirs = self.server.exchange(client.name.type, now_s, self.rng)
        opening = mine.start()
        step = theirs.start(opening.method, mode, opening.payload)
        assert isinstance(step, AuthMore)
        step = theirs.more(mine.more(step.payload))
        assert isinstance(step, AuthDone)
        return mine.done(step.result.global_id, mode, step.payload), step.result


class MAuthPair:
    """A client and a monitor that send each other MAuth and MAuthReply."""

    def __init__(self, client: MonAuthClient, session: MonAuthSession) -> None:
        self.client = client
        self.session = session
        self.requests: list[MAuthRequest] = []
        self.answers: list[MAuthAnswer] = []

    def start(self, now_s: float = NOW_S) -> None:
        self.converse(self.client.start(now_s), now_s)

    def renew(self, now_s: float) -> None:
        """Send all requests that are due."""
        for request in iter(lambda: self.client.due(now_s), None):
            self.converse(request, now_s)

    def converse(self, request: MAuthRequest | None, now_s: float) -> None:
        """Until neither side has anything to send."""
        while request is not None:
            self.requests.append(request)
            answer = self.session.handle(request.protocol, request.payload, now_s)
            assert answer is not None
            self.answers.append(answer)
            request = self.deliver(answer, now_s)

    def deliver(self, answer: MAuthAnswer, now_s: float) -> MAuthRequest | None:
        return self.client.handle(answer.protocol, answer.result, answer.global_id, answer.payload, now_s)

    @property
    def kinds(self) -> list[str]:
        """The requests so far, by their first two bytes."""
        return [request.payload[:2].hex() if request.protocol else "start" for request in self.requests]


def mauth_pair(cluster: Cluster, client: CephxClient, **arguments: object) -> MAuthPair:
    """A new v1 connection of ``client``."""
    return MAuthPair(MonAuthClient(client, cluster.rng, **arguments), MonAuthSession(cluster.server, cluster.rng))


def renewing_pair(cluster: Cluster, client: CephxClient, now_s: float = NOW_S, **arguments: object) -> MAuthPair:
    """A new v2 connection of ``client``, for renewals."""
    mine, theirs = cluster.login(client, now_s=now_s)
    return MAuthPair(
        MonAuthClient(client, cluster.rng, established=mine, **arguments),
        MonAuthSession(cluster.server, cluster.rng, established=theirs),
    )


def single_bit_flips(payload: bytes, step: int = 1) -> Iterable[tuple[int, bytes]]:
    """Every ``step``-th of the payloads that differ in one bit, with the number of the bit."""
    for bit in range(0, len(payload) * 8, step):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(flipped)
