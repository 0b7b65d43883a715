"""Verbs for authentication: keys, monitors that issue tickets, logins, and malformed authorizers."""

from collections.abc import Mapping
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from toolkit.lab.verbs.nodes import NodeVerbs

_ALL = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}


class AuthVerbs(NodeVerbs):
    """Verbs for authentication; ``toolkit/node/auth.py`` documents the ``auth`` argument of nodes."""

    def new_key(self, cipher: KeyType | None = None) -> str:
        """Generate a key in its text form, for the way's cipher unless another is given."""
        return CryptoKey.generate(self._rng, 0.0, cipher or self.way.key_type).to_base64()

    def entity(self, key: str = "", **others: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """Describe an entity for monitors, with all capabilities, and with a new key unless one is given."""
        return {"key": key or self.new_key(), "caps": _ALL, **others}

    def monitor(self, name: str, num: int, entities: Mapping[str, Mapping[str, Any]], **auth: Any) -> None:  # noqa: ANN401 - as JSON
        """Describe a monitor that authenticates these entities.

        Args:
            name: name of the monitor's node.
            num: its rank.
            entities: what :meth:`entity` returns, by the entities' names.
            auth: further values of the node's ``auth``; ``protocols`` as for :meth:`node`.
        """
        protocols = auth.pop("protocols", "")
        auth = {"entities": dict(entities), "service_cipher": self.way.key_type.label, **auth}
        self.node(name, f"mon.{num}", "stateless_server", protocols=protocols, auth=auth)

    def auth(self, node: str) -> dict[str, Any]:
        """Read the authentication state of a node.

        Returns:
            Among others ``global_id``, ``tickets`` (the id of the key that seals each, by service), ``secrets``
                (the ids of its service keys) and ``monitors`` (where it is logged in).
        """
        return self._command(node, "auth", do="state")

    def hunt(self, node: str, *monitors: str) -> None:
        """Have a node dial all these monitors at once and keep the first that accepts its login."""
        self._step("hunt", node, *monitors)
        self._command(node, "auth", do="hunt", monitors=list(monitors))

    def renew(self, node: str) -> None:
        """Have a node request tickets and keys that are missing or about to expire, as on its tick."""
        self._step("renew", node)
        self._command(node, "auth", do="renew")

    def rotate(self, monitor: str, *, wipe: bool = False) -> None:
        """Have a monitor rotate the service keys that are due; ``wipe``: drop all keys and generate new ones."""
        self._step("rotate", monitor, wipe=wipe)
        self._command(monitor, "auth", do="rotate", wipe=wipe)

    def change_auth(self, node: str, **changes: Any) -> None:  # noqa: ANN401 - as JSON
        """Change ``secrets``, ``mints`` or ``key`` of a node's authentication, or ``ready`` of a monitor's."""
        self._step("change_auth", node, *changes)
        self._command(node, "auth", do="change", changes=changes)

    def spoil(self, node: str, **what: Any) -> None:  # noqa: ANN401 - as JSON
        """Have a node present wrong authorizers from now on; see ``Spoiler`` in ``toolkit/node/auth.py``."""
        self._step("spoil", node, **what)
        self._command(node, "auth", do="change", changes={"spoil": what})

    def expect_login(self, node: str, monitor: str, *, within_s: float | None = None) -> None:
        """Wait until a node is logged in to a monitor."""
        self._step("expect_login", node, monitor)
        self._wait(
            lambda: monitor in self.auth(node)["monitors"],
            f"{node} logged in at {monitor}",
            lambda: str(self.auth(node)),
            within_s,
        )

    def expect_hunted(self, node: str) -> None:
        """Wait until a node's hunt has kept a monitor."""
        self._step("expect_hunted", node)
        self._wait(lambda: bool(self.auth(node)["monitor"]), f"{node} has found a monitor")

    def running(self, name: str) -> bool:
        """True if a node's process runs."""
        return self._running(name)

    def expect_secrets(self, node: str, *secret_ids: int) -> None:
        """Wait until a daemon has exactly the service keys with these ids."""
        self._step("expect_secrets", node, *secret_ids)
        self._wait(
            lambda: self.auth(node)["secrets"] == list(secret_ids),
            f"service keys {secret_ids} at {node}",
            lambda: str(self.auth(node)["secrets"]),
        )

    def expect_ticket(self, node: str, service: str, secret_id: int) -> None:
        """Wait until a node has a ticket for a service that is sealed with the key of this id."""
        self._step("expect_ticket", node, service, secret_id)
        self._wait(
            lambda: self.auth(node)["tickets"].get(service) == secret_id,
            f"ticket of {node} for {service} by key {secret_id}",
            lambda: str(self.auth(node)["tickets"]),
        )
