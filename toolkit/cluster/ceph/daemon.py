"""A real Ceph daemon as a node."""

import contextlib
import signal
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from messenger.compat import override
from messenger.errors import LocalError
from toolkit.cluster.backends.base import Program
from toolkit.cluster.ceph.layout import Layout, Member
from toolkit.cluster.ceph.programs import check_socket, furnish
from toolkit.cluster.nodes import RunningNode

READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
"""Seconds that a daemon may take to stop cleanly."""

_END_TIMEOUT_S = 5.0
_KEYS = "keyring.all"
"""File with the keys that monitors start with."""
_MON_STORE = f"""\
conf=$PWD/ceph.conf
identity=$2
fsid=$3
cipher=$4
shift 4
if monmaptool --help 2>&1 | grep -q auth-allowed-ciphers; then
    # programs that offer several types of keys must request this one
    for option in allowed-ciphers service-cipher preferred-cipher; do
        set -- "$@" "--auth-$option" "$cipher"
    done
fi
monmaptool --create --clobber --fsid "$fsid" "$@" "$PWD/monmap"
ceph-mon -c "$conf" -i "$identity" --mkfs --monmap "$PWD/monmap" --keyring "$PWD/{_KEYS}"
"""
_READY = {
    "mon": ("mon_status", {"leader", "peon"}),
    "osd": ("status", {"active"}),
    "mds": ("status", {"up:active", "up:standby", "up:standby-replay"}),
}
"""Admin socket command of each kind, and the states in which a daemon serves; a manager only has to answer."""


class Company(Protocol):
    """The other daemons of a cluster, as far as one depends on them."""

    layout: Layout
    """Names, addresses and keys of all daemons."""

    announce: Callable[[str], None]
    """Called with a line before an image is built."""

    def launch(self, start: Callable[[], Program]) -> Program:
        """Start a program in a thread that lives long enough: daemons die with the thread that starts them."""

    def introduce(self) -> None:
        """Register all OSDs with the monitors, unless they are; raises LocalError."""

    def recreate(self) -> bool:
        """Recreate placement groups that no OSD has any more; returns False if the OSD has ignored a request.

        Raises:
            LocalError: the monitors refuse it.
        """

    def settle(self) -> None:
        """Wait until the cluster has been healthy once; raises LocalError."""

    def status(self) -> dict[str, Any]:
        """Return the cluster's status from the monitors; raises LocalError."""


class CephDaemon(RunningNode):
    """A real daemon; :class:`toolkit.cluster.ceph.CephNodes` makes it.

    Args:
        company: the daemons of its cluster.
        member: its name, host and options.
    """

    keeps_devices: ClassVar[bool] = True
    poll_s: ClassVar[float] = 0.02

    def __init__(self, company: Company, member: Member) -> None:
        super().__init__(member.node, member.host)
        self.kind = member.kind
        self.member = member
        self._company = company
        self._layout = company.layout
        self._program: Program | None = None
        self._state = self._thaws_to = "new"
        self._has_lost = False
        """True if its data is lost and its placement groups were not recreated yet."""

    @property
    def daemon(self) -> str:
        """Ceph's name of the daemon: ``osd.0``."""
        return self.member.name

    @property
    @override
    def state(self) -> str:
        if self._state in {"starting", "up", "frozen"} and self._program is not None:
            return self._state if self._program.poll() is None else "dead"
        return self._state

    @property
    @override
    def pid(self) -> int:
        return self._program.pid if self._program is not None and self.alive else 0

    @property
    @override
    def address(self) -> str:
        """Addresses of a monitor; for other daemons the host only."""
        return self._layout.mon_addrs[self.member.id] if self.kind == "mon" else self.member.addresses[0]

    # ---- its files

    def prepare(self) -> None:
        """Write its configuration and keys, and make its store.

        Raises:
            LocalError: a program of Ceph failed.
        """
        layout, host = self._layout, self.host
        check_socket(host, self.daemon)
        furnish(host, layout.spec.ceph.release, self._company.announce)
        host.write("ceph.conf", layout.conf(self.member).encode())
        host.write("keyring", layout.keys_for(self.member).format().encode())
        if self.kind == "mon":
            host.write(_KEYS, layout.keyring.format().encode())
        self._make_store()

    def _make_store(self) -> None:
        script, *arguments = getattr(self, f"_{self.kind}_store")()
        steps = f'cd "$1"; rm -rf store; mkdir store\n{script}'
        self.host.run("sh", "-ec", steps, "sh", str(self.host.directory), *arguments)

    def _mon_store(self) -> list[str]:
        layout = self._layout
        monitors = [word for name, addrs in layout.mon_addrs.items() for word in ("--addv", name, addrs)]
        return [_MON_STORE, self.member.id, layout.fsid, layout.spec.speaks.cipher, *monitors]

    def _osd_store(self) -> list[str]:
        # the monitors get the same uuid, or the OSD would stay booting for ever
        return [
            'ceph-osd -c "$PWD/ceph.conf" -i "$2" --mkfs --osd-uuid "$3" --no-mon-config',
            *(self.member.id, self._layout.osd_uuids[self.member.id]),
        ]

    def _mgr_store(self) -> list[str]:
        return ["mkdir -p modules"]

    def _mds_store(self) -> list[str]:
        return [":"]

    # ---- its process

    @override
    def start(self) -> None:
        """Start the daemon. The first start makes its store; an OSD then waits for the monitors."""
        if self.alive:
            raise LocalError(f"node {self.name} is {self.state} already")
        try:
            if self._state == "new":
                self.prepare()
                if self.kind == "osd":
                    self._company.introduce()
            conf = str(self.host.directory / "ceph.conf")
            argv = [*self.host.lasting, f"ceph-{self.kind}", "-c", conf, "-i", self.member.id, "-f"]
            self._program = self._company.launch(lambda: self.host.start(argv, log=self._output))
        except LocalError:
            self._state = "dead"
            raise
        self._state = "starting"

    @override
    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the daemon is ready; after the first start, until the whole cluster is healthy."""
        super().wait_ready(timeout_s * self.host.slowness)
        self._company.settle()
        if self._has_lost:
            self._has_lost = False
            if not self._company.recreate() and self.alive:
                # Clean, so that the placement groups stay that it has. It then asks for the requests again.
                self.stop()
                self.start()
                super().wait_ready(timeout_s * self.host.slowness)

    @override
    def ready(self) -> bool:
        """True if the daemon serves, and for OSDs and MDSs, is in the monitors' maps."""
        if self.state == "up":
            return True
        if self.state != "starting":
            return False
        prefix, serving = _READY.get(self.kind, ("version", set()))
        try:
            answer = self.ask(prefix)
        except LocalError:
            return False  # it does not listen yet, or does not support the command yet
        if serving and answer.get("state") not in serving:
            return False
        self._state = "up"
        return True

    @override
    def kill(self) -> None:
        """Kill the daemon. The content of a memstore is lost."""
        if self._program is not None:
            if self._is_memstore and self._state != "down":
                self._has_lost = True
            self._program.signal(signal.SIGKILL)
            self._program.wait(_END_TIMEOUT_S)
            self._state = "down"

    @override
    def stop(self) -> None:
        """Stop the daemon. An OSD announces it to the monitors and keeps its store."""
        if self._program is None or not self.alive:
            return
        self._program.signal(signal.SIGCONT)
        self._program.signal(signal.SIGTERM)
        try:
            self._program.wait(STOP_TIMEOUT_S)
        except TimeoutError:
            self.kill()
        self._state = "down"

    @override
    def finish(self) -> None:
        """Stop the daemon without keeping its store."""
        self.kill()

    @override
    def freeze(self, frozen: bool) -> None:
        program = self._running()
        if frozen == (self.state == "frozen"):
            return
        program.signal(signal.SIGSTOP if frozen else signal.SIGCONT)
        if frozen:
            self._thaws_to = self._state
        self._state = "frozen" if frozen else self._thaws_to

    def restart(self, *, new_nonce: bool = False, wiped: bool = False) -> None:  # noqa: ARG002 - always a new one
        """Restart the daemon. Monitors have no nonce; other daemons have a new one after each start.

        It is killed, except for an OSD whose memstore would be lost: that one is stopped cleanly, which saves its
        content.

        Raises:
            LocalError: the daemon does not start, or ``wiped`` would delete the store of the only monitor.
        """
        if wiped and self.kind == "mon" and len(self._layout.mon_addrs) == 1:
            raise LocalError(f"{self.name}: the only monitor cannot be wiped: its store identifies the cluster")
        if self._is_memstore and not wiped:
            self.stop()
        self.kill()
        if wiped:
            self._make_store()
            self._has_lost = self.kind == "osd"
        self.start()
        self.wait_ready()

    def ask(self, prefix: str, **args: Any) -> Any:  # noqa: ANN401 - whatever JSON the daemon answers
        """Return its answer on its admin socket, as decoded JSON.

        Raises:
            LocalError: the daemon does not answer, or does not have the command.
        """
        return self.host.ask(self.daemon, {"prefix": prefix, **args})

    @override
    def command(self, verb: str, **args: Any) -> dict[str, Any]:
        """Run a command of the admin socket, such as ``config show``."""
        self._running()
        if self.state == "frozen":
            raise LocalError(f"node {self.name} is frozen: msgrlab fault thaw {self.name}")
        answer = self.ask(verb, **args)
        return answer if isinstance(answer, dict) else {"answer": answer}

    @override
    def status(self) -> dict[str, Any]:
        """Return the state, including that of the admin socket if it answers."""
        about = super().status() | {"daemon": self.daemon}
        if self.state in {"starting", "up"} and self.kind in _READY:
            prefix, _ = _READY[self.kind]
            with contextlib.suppress(LocalError):
                about["serves_as"] = self.ask(prefix).get("state", "")
            if self.kind == "mon":
                about["cluster"] = self._company.status()
        return about

    @override
    def log(self, lines: int = 20) -> str:
        """Return the output of the daemon, or its log file if it printed nothing."""
        for name in (self._output, f"{self.daemon}.log"):
            with contextlib.suppress(LocalError):
                text = self.host.read(name).decode(errors="replace").strip()
                if text:
                    return "\n".join(text.splitlines()[-lines:])
        return ""

    @override
    def gather(self) -> None:
        names = [f"{self.daemon}.log"] if self.host.keeps_logs_here else [f"{self.daemon}.log", self._output]
        for name in names:
            with contextlib.suppress(LocalError):  # it has not started to log
                self.host.fetch(name)

    @property
    def _is_memstore(self) -> bool:
        return self.kind == "osd" and self._layout.spec.ceph.store == "memstore"

    @property
    def _output(self) -> str:
        return f"{self.daemon}.out"

    def _running(self) -> Program:
        if self._program is None or not self.alive:
            raise LocalError(f"node {self.name} is {self.state}: msgrlab fault restart {self.name}")
        return self._program
