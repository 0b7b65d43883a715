"""The cluster that the cells of a setup share, and the trial of one cell: its capture, logs and evidence."""

import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from messenger.files import new_file
from toolkit.checks.history import History
from toolkit.cluster.ceph import CephNodes, RadosNode
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.failure import NotUp
from toolkit.cluster.own import up
from toolkit.cluster.retention import CEPH_KEYRING
from toolkit.cluster.spec import ClusterSpec
from toolkit.machine.private import write_private
from toolkit.matrix.evidence import Expected, Wire, require
from toolkit.matrix.table import HOST, Cell, Role

MON, OSD, APP = "mon", "osd", "app"
"""The nodes. The connecting side runs on the host of ``app``, whose packets are captured."""
PEER_KEYRING = "peer.keyring"
"""File in a trial's directory with the key of our OSD, which is not in the cluster's keyring."""
_CAPTURE = "capture.pcapng"
_SETTLED_S = 60.0
_ATTEMPTS = 5
T = TypeVar("T")


class NotServed(LocalError):
    """Ceph's own programs fail with each other, so that the cell cannot be tried."""


def spec_of(cell: Cell) -> ClusterSpec:
    """Return the spec of the cluster of this cell's setup: a monitor, an OSD, and a host that connects to them."""
    ours = cell.role is Role.CLIENT
    cipher = cell.auth if cell.auth != "none" else "aes"
    auth = "none" if cell.auth == "none" else "cephx"
    values = {
        "name": "matrix",
        "nodes": {MON: {"ceph": "mon"}, OSD: {"ceph": "osd"}, APP: {"rados": "client.app"}},
        "speaks": {"protocol": cell.protocol, "mode": cell.mode, "auth": auth, "cipher": cipher},
        "ceph": {"release": "embedded" if ours else cell.release},
    }
    return ClusterSpec.model_validate(values)


class Ground:
    """The running cluster of a setup.

    Args:
        cluster: a cluster of :func:`spec_of`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        app = cluster.nodes[APP]
        assert isinstance(app, RadosNode)
        self.app = app
        self._peers = count(1)
        self._violations: set[str] = set()
        app.kill()  # each trial starts its own client

    @classmethod
    @contextmanager
    def open(cls, cell: Cell) -> Iterator["Ground"]:
        """Start the cluster of a cell's setup, and stop it when the block ends.

        Raises:
            Unsupported: this machine lacks what the cluster needs.
            LocalError: the cluster does not come up.
        """
        with ExitStack() as running:
            for left in reversed(range(_ATTEMPTS)):
                name = f"matrix-{uuid.uuid4().hex[:8]}"
                try:
                    cluster = running.enter_context(up(spec_of(cell), backend="netns", name=name))
                    break
                except NotUp:
                    if not left:
                        raise
            yield cls(cluster)

    def host_of(self, node: str) -> str:
        """Return the address of a node's host."""
        return self.cluster.backend.hosts[node].addresses["public"]

    def new_violations(self) -> list[str]:
        """Return the violations of invariants by our side that were not returned before."""
        found = [
            f"{result.id}: {violation.text}"
            for result in self.cluster.check()
            if not result.ok
            for violation in result.violations
        ]
        new = [text for text in found if text not in self._violations]
        self._violations.update(new)
        return new

    def new_peer_name(self) -> str:
        """Return a new name for a peer."""
        return f"peer{next(self._peers)}"

    @contextmanager
    def trial(self, cell: Cell, directory: Path) -> Iterator["Trial"]:
        """Run the trial of one cell in a block; at its end, heal all links and store the files in the directory.

        Args:
            cell: the cell to try.
            directory: folder to make for capture, keys, logs and history of the trial.
        """
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        trial = Trial(self, cell, directory)
        if self.cluster.nodes[OSD].state != "up":  # the previous cell stopped it
            trial.restart_osd()
        logs = {path: path.stat().st_size for path in self._logs()}
        records = len(self.cluster.history.so_far().records)
        self.cluster.start_capture(APP, f"{uuid.uuid4().hex}.pcapng")
        try:
            yield trial
        finally:
            trial.stop_capture()
            with contextlib.suppress(LocalError):
                self.cluster.fault("heal")
            self.app.kill()
            if not trial.is_judged:
                self.new_violations()  # discard them, so that they do not count for the next cell
            self._keep(directory, logs, records)

    def _logs(self) -> list[Path]:
        return [path for path in self.cluster.directory.glob("*/*.log") if path.is_file()]

    def _keep(self, directory: Path, before: dict[Path, int], records: int) -> None:
        """Copy the keys, and the parts of logs and history written since the trial began."""
        for path in self._logs():
            with path.open("rb") as source:
                source.seek(before.get(path, 0))
                if grown := source.read():
                    _write(directory / f"{path.parent.name}-{path.name}", grown)
        history = History(self.cluster.history.so_far().records[records:])
        history.save(directory / "history.ndjson")
        keyring = self.cluster.directory / CEPH_KEYRING
        write_private(directory / "ceph.keyring", keyring.read_bytes())


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with new_file(path) as file:
        file.write(content)


class Trial:
    """The trial of one cell: runs its steps and collects the evidence, line by line.

    Args:
        ground: the cluster.
        cell: the cell to try.
        directory: folder for the files of the trial.
    """

    def __init__(self, ground: Ground, cell: Cell, directory: Path) -> None:
        self.ground = ground
        self.cluster = ground.cluster
        self.cell = cell
        self.directory = directory
        self.evidence: list[str] = []
        self._began_s = ground.cluster.now()
        self._is_captured = True
        self.is_judged = False
        """True if our side's invariants were checked."""

    def see(self, text: str) -> None:
        """Add a line of evidence."""
        self.evidence.append(text)

    def fault(self, text: str) -> str:
        """Inject a fault, given as in docs/faults.md."""
        done = self.cluster.fault(text)
        self.see(f"{text}: {done}" if done else text)
        return done

    def stop_capture(self) -> Path:
        """End the capture and move its file into the trial's directory; return its path."""
        path = self.directory / _CAPTURE
        if self._is_captured:
            self._is_captured = False
            taken = self.cluster.stop_capture(APP)
            path.unlink(missing_ok=True)
            assert taken.path is not None
            taken.path.replace(path)
        return path

    def wire(self) -> Wire:
        """End the capture and decode it."""
        host = self.ground.host_of
        keyrings = [self.cluster.directory / CEPH_KEYRING, self.directory / PEER_KEYRING]
        return Wire(self.stop_capture(), keyrings, host(APP), [host(MON), host(OSD)])

    def judge(self, *nodes: str) -> Wire:
        """End the capture, and require the cell's protocol, mode and authentication, and our side's invariants.

        Args:
            nodes: nodes to which a link must be open.

        Raises:
            EvidenceMissing: a link, an authentication or an invariant is not as required.
        """
        wire = self.wire()
        mode = "secure" if self.cell.mode == "secure" else "crc"
        compressed = self.ground.host_of(OSD) if self.cell.mode == "compressed" else ""
        expected = Expected(self.cell.protocol, mode, compressed)
        self.see(wire.require_links(expected, [self.ground.host_of(node) for node in nodes]))
        self._require_auth(wire)
        self.is_judged = True
        wrong = self.ground.new_violations()
        require(not wrong, f"invariants do not hold: {'; '.join(wrong)}")
        self.see("all invariants hold")
        return wire

    def _require_auth(self, wire: Wire) -> None:
        """Require, by our side's history, that it authenticated its peers as the cell specifies."""
        records = [record.fields for record in self.history("auth")]
        seen = Counter((fields["method"], fields["cipher"]) for fields in records)
        if self.cell.protocol == "v1" and self.cell.auth != "none":
            seen.pop(("none", "none"), None)  # of v1 links to monitors: MAuth follows
            links = len(wire.to(self.ground.host_of(OSD)))
            require(seen.total() >= links, f"{links} links to the OSD, of which {seen.total()} by cephx")
        method = "none" if self.cell.auth == "none" else "cephx"
        require(seen, "our side has no record of an authentication")
        require(set(seen) == {(method, self.cell.auth)}, f"authenticated by {sorted(seen)}")
        self.see(f"{seen.total()} authentications: {', '.join(sorted(' '.join(each) for each in seen))}")

    def history(self, *kinds: str) -> list[Any]:
        """Return the records of our side of these kinds since the trial began."""
        records = self.cluster.history.so_far().of(*kinds)
        return [record for record in records if record.time_s >= self._began_s]

    def retry(self, what: Callable[[], T]) -> T:
        """Run an operation between Ceph's own programs, and repeat it if it fails; the cell does not fail.

        Monitors without authentication refuse some v1 sessions with EPERM, and accept the next one.

        Raises:
            NotServed: the operation failed several times.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                return what()
            except LocalError as error:
                line = str(error).partition("\n")[0]
                if not left:
                    raise NotServed(line) from None
                self.see(f"done again, since Ceph's own programs failed: {line}")
        raise AssertionError

    def begin(self) -> None:
        """Start our client."""
        self.retry(self.ground.app.start)
        self.ground.app.wait_ready()

    def restart_osd(self) -> None:
        """Start the OSD again, and wait until the cluster is healthy; raises NotServed."""
        osd, daemons = self.cluster.nodes[OSD], self.ground.app.ceph
        self.retry(osd.restart)
        if isinstance(daemons, CephNodes):
            self.retry(lambda: daemons.wait_healthy(_SETTLED_S))

    def ceph(self, *arguments: str) -> str:
        """Run ``ceph`` on the monitor's host as client.admin, and return its output; raises NotServed."""
        conf = str(self.cluster.nodes[MON].host.directory / "ceph.conf")
        return self.retry(lambda: self.cluster.nodes[MON].host.run("ceph", "-c", conf, *arguments))

    def osd_cluster_addrs(self) -> AddrVec:
        """Return the addresses of the OSD's cluster messenger, with its nonce."""
        (osd,) = json.loads(self.ceph("osd", "dump", "--format", "json"))["osds"]
        entries: Sequence[dict[str, Any]] = osd["cluster_addrs"]["addrvec"]
        texts = [f"{entry['type']}:{entry['addr']}/{entry['nonce']}" for entry in entries]
        wanted = [text for text in texts if text.startswith(self.cell.protocol)]
        return AddrVec.parse(f"[{','.join(wanted)}]")


def release_of(cell: Cell) -> str:
    """Return the release of Ceph's programs for a cell; ``host`` for those installed on this machine."""
    return "host" if cell.release == HOST else cell.release
