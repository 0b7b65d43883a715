"""Verbs about authentication: keys, monitors that hand out tickets, logins, and what is wrong with them."""

from collections.abc import Mapping
from typing import Any

from messenger.cephx.ciphers import KeyType
from messenger.cephx.keys import CryptoKey
from toolkit.lab.verbs.nodes import NodeVerbs

_ALL = {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}


class AuthVerbs(NodeVerbs):
    """Authentication; what ``auth`` of nodes says is in ``toolkit/node/auth.py``."""

    def new_key(self, cipher: KeyType | None = None) -> str:
        """A new key in its text form, of the way's cipher unless another is given."""
        return CryptoKey.generate(self._rng, 0.0, cipher or self.way.key_type).to_base64()

    def entity(self, key: str = "", **others: Any) -> dict[str, Any]:  # noqa: ANN401 - as JSON
        """An entity as monitors know it, with a new key unless one is given, and all capabilities."""
        return {"key": key or self.new_key(), "caps": _ALL, **others}

    def monitor(self, name: str, num: int, entities: Mapping[str, Mapping[str, Any]], **auth: Any) -> None:  # noqa: ANN401 - as JSON
        """Describe a monitor that knows these entities.

        Args:
            name: what the scenario calls it.
            num: its rank.
            entities: by their names; see :meth:`entity`.
            auth: more of what ``auth`` of a node may say; ``protocols`` as for nodes.
        """
        protocols = auth.pop("protocols", "")
        auth = {"entities": dict(entities), "service_cipher": self.way.key_type.label, **auth}
        self.node(name, f"mon.{num}", "stateless_server", protocols=protocols, auth=auth)

    def auth(self, node: str) -> dict[str, Any]:
        """What a node has: global_id, tickets and the secret_ids that seal them, service keys, logins."""
        return self._command(node, "auth", do="state")

    def hunt(self, node: str, *monitors: str) -> None:
        """Have a node dial all these monitors at once and keep the first that lets it in."""
        self._step("hunt", node, *monitors)
        self._command(node, "auth", do="hunt", monitors=list(monitors))

    def renew(self, node: str) -> None:
        """Have a node ask its monitors for what is missing or about to expire, as on a tick."""
        self._step("renew", node)
        self._command(node, "auth", do="renew")

    def rotate(self, monitor: str, *, wipe: bool = False) -> None:
        """Have a monitor make the service keys that are due; ``wipe``: discard all, start again."""
        self._step("rotate", monitor, wipe=wipe)
        self._command(monitor, "auth", do="rotate", wipe=wipe)

    def change_auth(self, node: str, **changes: Any) -> None:  # noqa: ANN401 - as JSON
        """Change ``secrets``, what it ``mints`` with, the own ``key``, or as a monitor whether it is ``ready``."""
        self._step("change_auth", node, *changes)
        self._command(node, "auth", do="change", changes=changes)

    def spoil(self, node: str, **what: Any) -> None:  # noqa: ANN401 - as JSON
        """Have something be wrong with the authorizers of a node; see ``Spoiler`` in ``toolkit/node/auth.py``."""
        self._step("spoil", node, **what)
        self._command(node, "auth", do="change", changes={"spoil": what})

    def expect_login(self, node: str, monitor: str, *, within_s: float | None = None) -> None:
        """Wait until a node is logged in at a monitor."""
        self._step("expect_login", node, monitor)
        self._wait(
            lambda: monitor in self.auth(node)["monitors"],
            f"{node} logged in at {monitor}",
            lambda: str(self.auth(node)),
            within_s,
        )

    def expect_hunted(self, node: str) -> None:
        """Wait until a node has found a monitor."""
        self._step("expect_hunted", node)
        self._wait(lambda: bool(self.auth(node)["monitor"]), f"{node} has found a monitor")

    def running(self, name: str) -> bool:
        """True if a node runs."""
        return self._running(name)

    def expect_secrets(self, node: str, *secret_ids: int) -> None:
        """Wait until a daemon has these service keys, by their ids."""
        self._step("expect_secrets", node, *secret_ids)
        self._wait(
            lambda: self.auth(node)["secrets"] == list(secret_ids),
            f"service keys {secret_ids} at {node}",
            lambda: str(self.auth(node)["secrets"]),
        )

    def expect_ticket(self, node: str, service: str, secret_id: int) -> None:
        """Wait until a node has a ticket for a service that this key seals."""
        self._step("expect_ticket", node, service, secret_id)
        self._wait(
            lambda: self.auth(node)["tickets"].get(service) == secret_id,
            f"ticket of {node} for {service} by key {secret_id}",
            lambda: str(self.auth(node)["tickets"]),
        )
