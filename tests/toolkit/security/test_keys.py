"""The keys of a live cluster cannot be computed: a seed repeats faults, not secrets."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from messenger.cephx.ciphers import KeyType
from messenger.cephx.exchange import ConMode
from messenger.cephx.keys import CryptoKey
from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.errors import FaultError
from messenger.keylog import LinkSecrets, ServiceSecret, parse_key_log
from messenger.messenger import Messenger
from tests.support.clusters import peers, state
from tests.support.node import cephx_client
from tests.support.users import OTHER_UID, as_user, needs_root
from tests.support.waiting import eventually
from toolkit.cluster import up
from toolkit.cluster.node import open_node
from toolkit.cluster.retention import SERVICE_KEYS
from toolkit.lab.real.real_lab import RealLab
from toolkit.node import NodeApp, NodeSpec
from toolkit.node.live_random import LiveRandom

__all__ = ["state"]

SECURE = ["speaks.mode=secure"]


def shared_key(directory: Path) -> CryptoKey:
    """The key of a cluster, as it is recorded for its owner."""
    entries = list(parse_key_log((directory / SERVICE_KEYS).read_text()))
    assert all(isinstance(entry, ServiceSecret) for entry in entries)
    (secret,) = {entry.key.secret for entry in entries}
    return CryptoKey(KeyType.AES, secret)


async def knock(address: str, key: CryptoKey) -> str:
    """Dial a node as an OSD with a key: ``in``, or why not."""
    me = EntityName(EntityType.OSD, 77)
    config = Config.only_mode(ConMode.SECURE)
    async with Messenger(me, auth_client=cephx_client(me, key), config=config) as messenger:
        try:
            await messenger.connect(AddrVec.parse(address), EntityType.OSD).ready(timeout_s=60)
        except FaultError as error:
            return str(error.fault.reason)
        return "in"


@needs_root
@pytest.mark.usefixtures("state")
def test_another_user_with_the_spec_is_refused() -> None:
    with up(peers(), settings=SECURE) as cluster:
        address = cluster.nodes["a"].address
        seed = cluster.spec.seed
        guesses = [
            CryptoKey.generate(Random(text), 0.0)
            for text in (f"cluster {seed}", f"lab {seed}", f"{seed} ceph {cluster.spec.name}")
        ]
        answers = [as_user(OTHER_UID, lambda key=key: asyncio.run(knock(address, key))) for key in guesses]
        assert "in" not in answers
        # The owner is, with what is recorded for that.
        assert asyncio.run(knock(address, shared_key(cluster.directory))) == "in"
        with pytest.raises(AssertionError, match="PermissionError"):
            as_user(OTHER_UID, lambda: shared_key(cluster.directory))


@pytest.mark.usefixtures("state")
def test_two_clusters_of_one_spec_share_no_key() -> None:
    found = set()
    for _ in range(2):
        with up(peers()) as cluster:
            assert (cluster.directory / SERVICE_KEYS).stat().st_mode & 0o777 == 0o600
            found.add(shared_key(cluster.directory).secret)
    assert len(found) == 2


def test_labs_on_sockets_have_keys_that_no_seed_has() -> None:
    labs = [RealLab("local", "v2-secure", 1, processes=False) for _ in range(2)]
    try:
        assert labs[0]._key.secret != labs[1]._key.secret
        assert labs[0].new_key() != labs[1].new_key()
        assert labs[0].rng.random() == labs[1].rng.random()
    finally:
        for lab in labs:
            lab.close()


def spec(name: str, number: int, log: Path, **changes: object) -> NodeSpec:
    values = {
        "name": name,
        "entity": f"osd.{number}",
        "addr": "any:0.0.0.0:0/7",
        "policy": "lossless_peer",
        "mode": "secure",
        "service_key": CryptoKey.generate(Random(1), 0.0).to_base64(),
        "peers": {},
        "peer_entities": {"a": "osd.1", "b": "osd.2"},
        "key_log": str(log),
        "seed": 1,
    }
    return NodeSpec.from_json({**values, **changes})


async def connect(log: Path) -> None:
    """Open a link between two nodes of a fixed seed."""

    def ignore(*_: object) -> None:
        return

    b = spec("b", 2, log, addr="v2:127.0.0.1:0/8")
    async with await open_node(b, NodeApp(b, ignore)) as acceptor:
        # an address with port 0 does not listen: it is bound by hand
        await acceptor.bind("127.0.0.1", 0)
        a = spec("a", 1, log, peers={"b": str(acceptor.addrs)})
        async with await open_node(a, NodeApp(a, ignore)) as connector:
            await connector.connect(acceptor.addrs, EntityType.OSD).ready(timeout_s=60)


def link_secrets(log: Path) -> LinkSecrets:
    """The keys of such a link."""
    asyncio.run(connect(log))
    found = next(iter(parse_key_log(log.read_text())))
    assert isinstance(found, LinkSecrets)
    return found


def test_the_keys_of_links_do_not_follow_from_the_seed(tmp_path: Path) -> None:
    first, second = (link_secrets(tmp_path / name) for name in ("one", "two"))
    assert len(first.connection_secret) == len(second.connection_secret) > 0
    assert first.connection_secret != second.connection_secret
    assert first.session_key.secret != second.session_key.secret


def test_a_seed_repeats_faults_and_no_secrets() -> None:
    first, second = LiveRandom("7 a 1"), LiveRandom("7 a 1")
    for bits in (16, 32, 53):
        assert [first.getrandbits(bits) for _ in range(20)] == [second.getrandbits(bits) for _ in range(20)]
    assert first.getrandbits(64) != second.getrandbits(64)
    assert first.randbytes(16) != second.randbytes(16)


@pytest.mark.usefixtures("state")
def test_history_contains_no_key() -> None:
    with up(peers(), settings=SECURE) as cluster:
        cluster.nodes["a"].command("send", peer="b")
        eventually(lambda: cluster.nodes["b"].status()["sessions"])
        cluster.history.flush()
        text = (cluster.directory / "history.ndjson").read_text()
        key = shared_key(cluster.directory)
        assert key.to_base64() not in text
        assert key.secret.hex() not in text
