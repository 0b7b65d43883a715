"""The nodes of a swarm run, which make their own tickets or log in at a monitor; and what logins must lead to."""

from collections.abc import Iterable
from typing import Any

from messenger.denc.entity import EntityType
from messenger.errors import FaultReason
from toolkit.errors import ScenarioFailed
from toolkit.lab.sim.sim_lab import SimLab
from toolkit.simulation.draws import Login, Options

MONITOR = "m"
"""The node at which the others log in."""


class LoginLab(SimLab):
    """The nodes that a seed drew, and their monitor if they log in.

    Args:
        options: the options that the seed drew.
        seed: decides latencies, keys and the random numbers of the messengers.
        intercepted: True if interception points can be armed, which costs time.
    """

    def __init__(self, options: Options, seed: int, *, intercepted: bool) -> None:
        super().__init__(options.way, seed, intercepted=intercepted)
        self._login = options.login
        self._describe_nodes(options)
        self._was_unready = False
        self._services = {node.entity.partition(".")[0] for node in options.nodes if node.listens}
        """Types of the nodes that others dial, which takes a ticket."""
        self._proved: dict[tuple[str, int], tuple[int, float]] = {}
        """By node and incarnation, the last known global_id, and the unix time until which it can be proved."""

    def _describe_nodes(self, options: Options) -> None:
        """Describe the nodes, and the monitor where they log in, if they do."""
        login = options.login
        entities = {node.entity: self.entity() for node in options.nodes} if login else {}
        for node in options.nodes:
            self.node(
                node.name,
                node.entity,
                node.policy if login is None else f"{node.policy} mon=lossy_client",
                listens=node.listens,
                protocols=options.protocols,
                auth=options.auth if login is None else _auth(login, node.entity, entities[node.entity]["key"]),
                **node.options,
            )
        if login is not None:
            self.monitor(
                MONITOR,
                0,
                entities,
                protocols=options.protocols,
                auth_ttl_s=login.auth_ttl_s,
                service_ttl_s=login.service_ttl_s,
                cluster_required=[login.method],
                service_required=[login.method],
            )

    def set_ready(self, *, ready: bool) -> None:
        """Have the monitor leave the quorum, or join it again."""
        self._was_unready |= not ready
        self.change_auth(MONITOR, ready=ready)

    def log_in(self, name: str) -> None:
        """Have a node dial the monitor unless it is logged in; if it is, send a keepalive and renew its tickets.

        A login that is not complete begins again, as that of a MonClient does after ``mon_client_hunt_interval``.
        """
        self.expect_same_identity(name)
        if MONITOR in self._nodes[name].app.logins.done:
            self.keepalive(name, MONITOR)
            self.renew(name)
            return
        if self._nodes[name].app.has_connection(MONITOR):
            self.mark_down(name, MONITOR)
        self.dial(name, MONITOR)

    def without_login(self) -> list[str]:
        """The nodes that are not logged in, or have no ticket for a service or no service keys yet.

        Raises:
            ScenarioFailed: a node has another global_id than before, although nothing was refused.
        """
        return [name for name in self._specs if name != MONITOR and not self._is_logged_in(name)]

    def _is_logged_in(self, name: str) -> bool:
        assert self._login is not None
        logins = self._nodes[name].app.logins
        state = logins.state()
        if MONITOR not in state["current"]:
            return False
        if self._login.method == "none":
            return True
        self.expect_same_identity(name)
        credentials = logins.credentials
        assert credentials.identity is not None
        due = credentials.identity.services_to_renew(self._nodes[name].app.wall_s)
        has_keys = credentials.rotating is None or bool(credentials.rotating.secrets)
        return not due and has_keys and self._services <= state["tickets"].keys()

    def expect_same_identity(self, name: str) -> None:
        """Require that a node keeps its global_id as long as it has a valid AUTH ticket, which proves it.

        Raises:
            ScenarioFailed: it has got another one, although the monitor has refused nothing.
        """
        app = self._nodes[name].app
        identity = app.logins.credentials.identity
        ticket = identity.tickets.get(EntityType.AUTH) if identity is not None else None
        if identity is None or ticket is None:
            return
        node = name, self._specs[name].incarnation
        known, expires_s = self._proved.get(node, (identity.global_id, 0.0))
        lost = app.wall_s < expires_s and known != identity.global_id
        if lost and not self._refusals() and not self._is_disturbed:
            raise ScenarioFailed(f"{name} could prove global_id {known}, and has got {identity.global_id}")
        self._proved[node] = identity.global_id, ticket.expires_s

    def expect_no_refusal(self) -> None:
        """Require that the monitor has refused no login and no request, unless it or a clock was disturbed.

        Raises:
            ScenarioFailed: it has.
        """
        refusals = self._refusals()
        if refusals and not self._is_disturbed:
            raise ScenarioFailed(f"the monitor refused a login or request: {', '.join(refusals)}")

    def _refusals(self) -> list[str]:
        """What the monitor has refused: in handshakes of v2, and as answers to messages that nodes still know."""
        faults = (record for record in self.history.node(MONITOR) if record.kind == "fault")
        denied = [record["detail"] for record in faults if record["reason"] == FaultReason.AUTH_DENIED.name]
        return denied + [failure for node in self._nodes.values() for failure in node.app.logins.failures]

    @property
    def _is_disturbed(self) -> bool:
        """True if a clock was set, or the monitor was not in the quorum for a while."""
        return self._was_unready or bool(self.history.of("clock"))

    def expect_method(self, since: int) -> None:
        """Require that links opened after a place in the history use the method that the monitor requires.

        Raises:
            ScenarioFailed: one does not.
        """
        if self._login is None:
            return
        for record in self.history.records[since:]:
            if record.kind == "auth" and record["method"] != self._login.method:
                text = f"{record['link']} uses method {record['method']} after a login by {self._login.method}"
                raise ScenarioFailed(text)

    def describe(self, names: Iterable[str]) -> str:
        """The authentication state of nodes, in words."""
        return ", ".join(f"{name}: {self._nodes[name].app.logins.state()}" for name in names)


def _auth(login: Login, entity: str, key: str) -> dict[str, Any]:
    """``auth`` of a node that logs in; services accept each method, so that only a login decides which is used."""
    return {
        "login": {"name": entity, "key": key},
        "service_ttl_s": login.service_ttl_s,
        "offers": list(login.offers),
        "allows": ["cephx", "none"],
    }
