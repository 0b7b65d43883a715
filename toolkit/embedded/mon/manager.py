"""The active manager of an embedded cluster: it carries out commands, and needs no reports of daemons."""

import errno
import json
from typing import Any

from messenger.cephx.exchange import AuthServer
from messenger.cephx.key_server import KeyServer
from messenger.cephx.none import NoneServer
from messenger.cephx.service import CephxService, CephxServiceExchange
from messenger.compat import override
from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityType
from messenger.denc.features import ALL_FEATURES
from messenger.dispatch import Dispatcher
from messenger.driver import Connection
from messenger.messages.command import MCommand, MCommandReply, MMgrCommand, MMgrCommandReply
from messenger.messages.message import Message
from messenger.messages.mgr import MMgrClose
from messenger.messages.mgrmap import MgrMap
from messenger.randomness import RandomSource
from toolkit.embedded.mon.answers import COMMANDS, INPUT, Answer, CommandError
from toolkit.embedded.mon.cluster import Cluster
from toolkit.embedded.mon.maps import now
from toolkit.embedded.release import VERSION_VALUE

NAME = "x"
"""Name of the manager in its map."""
_GID = 1


def run_command(cluster: Cluster, words: list[str], given: bytes = b"") -> tuple[int, str, bytes]:
    """Run a command that a client sent.

    Args:
        cluster: state of the cluster.
        words: the command, whose parts together are a JSON object.
        given: its input, for example the file of ``ceph -i FILE``.

    Returns:
        0 or a negative Linux error number, the status text, and the output.
    """
    try:
        arguments = parse_command(words)
        if arguments.get("prefix") == "get_command_descriptions":
            answer = Answer(text=json.dumps(COMMANDS.descriptions()))
        else:
            answer = COMMANDS.run(cluster, {**arguments, INPUT: given})
    except CommandError as error:
        return -error.errno, str(error), error.output
    return 0, answer.status, answer.render(str(arguments.get("format", "plain")))


def run_told(cluster: Cluster, words: list[str], given: bytes = b"") -> tuple[int, str, bytes]:
    """Run a command that was sent to this daemon and no other one: ``ceph tell``, as :func:`run_command`."""
    try:
        is_version = parse_command(words).get("prefix") == "version"
    except CommandError:
        is_version = False
    if is_version:  # of the daemon, not of the cluster: in another form
        return 0, "", Answer(VERSION_VALUE).render("json-pretty")
    return run_command(cluster, words, given)


def parse_command(words: list[str]) -> dict[str, Any]:
    """Return the JSON object of a command.

    Raises:
        CommandError: EINVAL: it is not a JSON object.
    """
    try:
        # what follows the object is ignored, as by Ceph: "rbd perf image iostat" sends more
        arguments, _ = json.JSONDecoder().raw_decode("".join(words).strip())
    except ValueError as error:
        raise CommandError(errno.EINVAL, f"the command is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise CommandError(errno.EINVAL, "the command is not a JSON object")
    return arguments


class ManagerAuth:
    """Authenticates peers of the manager with the service keys of the moment, which the monitor has at hand."""

    def __init__(self, keys: KeyServer) -> None:
        self._keys = keys

    def exchange(self, peer_type: EntityType, wall_time_s: float, rng: RandomSource) -> CephxServiceExchange:
        """Begin an authentication."""
        self._keys.rotate(wall_time_s)
        service = CephxService(EntityType.MGR, self._keys.secrets(EntityType.MGR))
        return service.exchange(peer_type, wall_time_s, rng)


class Manager(Dispatcher):
    """Answers the commands that clients send to a manager instead of to a monitor (docs/protocol.md §6.3).

    Args:
        cluster: state of the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def auth_server(self) -> AuthServer:
        """Return what authenticates its peers."""
        return ManagerAuth(self._cluster.keys) if self._cluster.auth == "cephx" else NoneServer()

    def announce(self, addrs: AddrVec) -> None:
        """Make it the active manager in the manager map, at these addresses."""
        before = self._cluster.maps.mgrmap
        self._cluster.maps.mgrmap = MgrMap(
            epoch=before.epoch + 1,
            active_addrs=addrs,
            active_gid=_GID,
            available=True,
            active_name=NAME,
            active_change=now(),
            active_mgr_features=ALL_FEATURES,
        )

    @override
    def ms_dispatch(self, connection: Connection, message: Message) -> bool | None:
        payload = message.payload
        if isinstance(payload, MCommand):
            number, status, output = run_told(self._cluster, payload.cmd, bytes(message.data))
            kind = MMgrCommandReply if isinstance(payload, MMgrCommand) else MCommandReply
            connection.send(Message.of(kind(number, status), data=output, tid=message.tid))
        elif isinstance(payload, MMgrClose):
            connection.send(payload)  # a service that ends waits for its MMgrClose to come back
        return None
