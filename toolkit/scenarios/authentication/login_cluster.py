"""The cluster that many scenarios of the family run on: a monitor, an OSD and clients."""

from typing import Any

from messenger.outputs import EventKind
from toolkit.lab.lab import Lab

SERVICE_TTL_S = 60.0
DAEMON = "stateful_server mon=lossy_client"
CLIENT = "lossless_client mon=lossy_client"


def login(entities: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The ``auth`` of a node that logs in under that name."""
    return {"login": {"name": name, "key": entities[name]["key"]}}


def cluster(
    lab: Lab,
    *,
    clients: int = 1,
    client_auth: dict[str, Any] | None = None,
    start: bool = True,
    **monitor: Any,  # noqa: ANN401 - as JSON
) -> dict[str, dict[str, Any]]:
    """Describe a monitor ``m``, an OSD ``o`` with keys from it, and clients ``c`` (and ``c2`` and so on).

    Args:
        lab: the lab of the scenario.
        clients: number of clients.
        client_auth: ``auth`` of the first client, instead of a login with its own key.
        start: whether to start them, and to have the OSD log in.
        monitor: further values of the monitor's ``auth``.

    Returns:
        The entities that the monitor authenticates.
    """
    names = [f"client.{7 + number}" for number in range(clients)]
    entities = {name: lab.entity() for name in ("osd.2", *names)}
    lab.monitor("m", 0, entities, **({"service_ttl_s": SERVICE_TTL_S} | monitor))
    lab.node("o", "osd.2", DAEMON, auth={**login(entities, "osd.2"), "service_ttl_s": SERVICE_TTL_S})
    for number, name in enumerate(names, 1):
        auth = login(entities, name) if number > 1 or client_auth is None else client_auth
        lab.node("c" if number == 1 else f"c{number}", name, CLIENT, listens=False, auth=auth)
    if start:
        lab.start()
        lab.dial("o", "m")
        lab.expect_secrets("o", 1, 2, 3)
    return entities


def enter(lab: Lab, client: str = "c") -> None:
    """Log a client in and have it exchange messages with the OSD."""
    lab.dial(client, "m")
    lab.expect_login(client, "m")
    lab.expect_ticket(client, "osd", 2)
    lab.send(client, "o", 2)
    lab.expect_delivered(client, "o", 2)
    lab.send("o", client, 2)
    lab.expect_delivered("o", client, 2)


def refusals(lab: Lab, node: str, peer: str) -> int:
    """Number of refused events of a node's sessions with a peer."""
    return lab.events(node, peer, EventKind.REFUSED)


def refusal_codes(lab: Lab, node: str) -> list[Any]:
    """The codes of a node's refusals: errnos on v2, tags on v1."""
    if lab.is_v1:
        replies = [record["fields"]["tag"] for record in lab.frames(node, "CONNECT_REPLY")]
        return [tag for tag in replies if tag == "BADAUTHORIZER"]
    return [record["fields"]["result"] for record in lab.frames(node, "AUTH_BAD_METHOD")]
