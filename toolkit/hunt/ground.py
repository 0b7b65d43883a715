"""The cluster of a hunt: a monitor, OSDs, Ceph's own client, and proxies on the links between them."""

import contextlib
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import ExitStack, contextmanager
from pathlib import Path

from messenger.errors import LocalError
from messenger.files import new_file
from toolkit.cluster.ceph.programs import furnish
from toolkit.cluster.cluster import Cluster
from toolkit.cluster.failure import NotUp
from toolkit.cluster.images import RELEASES
from toolkit.cluster.own import up
from toolkit.cluster.retention import CEPH_KEYRING
from toolkit.cluster.spec import ClusterSpec
from toolkit.faults.proxy import FaultProxy
from toolkit.faults.script import strikes
from toolkit.faults.strike import Strike
from toolkit.hunt.cells import Cell, LinkKind
from toolkit.machine.private import write_private

PATIENCE_S = 12.0
"""Time limit of a client program before the link is cut, and again after the cut."""
HANDSHAKE_S = 3
"""ms_connection_ready_timeout of daemons and clients: a stalled handshake times out well before PATIENCE_S."""
EMBEDDED = "embedded"
_HOST = "host"
_APP, _POOL, _LOG = "app", "objects", "log"
_ATTEMPTS = 3
_GIVEN_UP_S = 60.0
_LAST_WORDS = re.compile(r"FAILED ceph_assert\(.*\)|Caught signal \(.*\)")
_LAST_BYTES = 8 << 20
"""Bytes at the end of a log that are searched: an aborting daemon dumps its recent events after the assertion."""
_PIECE = re.compile(r"<\d+>")


def spec_of(release: str) -> ClusterSpec:
    """Return the spec of a cluster of a release, with proxies on all links that cells use."""
    ways = [{"from": _APP, "to": "osd"}]
    if release != EMBEDDED:  # its OSDs have no replicas
        ways.append({"from": "osd", "to": "osd"})
    timeout = {} if release == EMBEDDED else {"ms_connection_ready_timeout": HANDSHAKE_S}
    values = {
        "name": "hunt",
        "nodes": {
            "mon": {"ceph": "mon"},
            "osd": {"ceph": "osd", "count": 2},
            _APP: {"rados": "client.app", "pool": _POOL},
        },
        "ceph": {"release": release, "pools": {_POOL: 8}, "options": timeout},
        "proxies": ways,
    }
    return ClusterSpec.model_validate(values)


def links_of(release: str) -> tuple[LinkKind, ...]:
    """Return the links that a cluster of a release has.

    Raises:
        LocalError: the release is unknown.
    """
    known = (_HOST, EMBEDDED, *RELEASES)
    if release not in known:
        raise LocalError(f"--release: unknown release {release!r}; known: {', '.join(known)}")
    return (LinkKind.CLIENT,) if release == EMBEDDED else tuple(LinkKind)


class Ground:
    """The running cluster of a hunt.

    Args:
        cluster: a cluster of :func:`spec_of`.
        release: release of Ceph's programs in it.
    """

    def __init__(self, cluster: Cluster, release: str) -> None:
        self.cluster = cluster
        node = cluster.nodes[_APP]
        node.kill()  # Ceph's own client runs in its place, on its host
        self._host = node.host
        if release not in {EMBEDDED, _HOST}:
            furnish(self._host, release, lambda _line: None)
        conf = str(self._host.directory / "ceph.conf")
        log = str(self._host.directory / "client.log")
        self._rados = ["rados", "-c", conf, "--name", "client.app", "-p", _POOL]
        self._rados += ["--debug-ms", "1", "--log-file", log, "--ms-connection-ready-timeout", f"{HANDSHAKE_S}"]
        self._pieces = 0
        self.expected = ""
        """The required content of the object: all acknowledged pieces, in order."""
        self._threads = ThreadPoolExecutor(1, "hunt")

    @classmethod
    @contextmanager
    def open(cls, release: str) -> Iterator["Ground"]:
        """Start a cluster, and stop it when the block ends.

        Raises:
            Unsupported: this machine lacks what the cluster needs.
            LocalError: the cluster does not come up.
        """
        with ExitStack() as running:
            for left in reversed(range(_ATTEMPTS)):
                try:
                    name = f"hunt-{uuid.uuid4().hex[:8]}"
                    cluster = running.enter_context(up(spec_of(release), backend="netns", name=name))
                    break
                except NotUp:
                    if not left:
                        raise
            ground = cls(cluster, release)
            running.callback(ground._threads.shutdown, wait=False, cancel_futures=True)
            ground.append().result(_GIVEN_UP_S)
            ground.expected = ground.read().result(_GIVEN_UP_S)
            yield ground

    # ---- the client

    @property
    def last_piece(self) -> str:
        """The piece that was appended last."""
        return f"<{self._pieces}>"

    def append(self) -> "Future[str]":
        """Start the client to append the next piece; the future is done when the client exits."""
        self._pieces += 1
        self._host.write("piece", self.last_piece.encode())
        return self._start("append", _LOG, str(self._host.directory / "piece"))

    def read(self) -> "Future[str]":
        """Start the client to read the object; the future has its content."""
        return self._start("get", _LOG, "-")

    def _start(self, *arguments: str) -> "Future[str]":
        return self._threads.submit(self._host.run, *self._rados, *arguments, timeout_s=_GIVEN_UP_S)

    # ---- the links

    def proxies(self, link: LinkKind) -> list[FaultProxy]:
        """Return the proxies on a link, for each direction in which connections may be opened."""
        first = ["osd0", "osd1"] if link is LinkKind.DAEMONS else [_APP]
        pairs = [(dialler, dialled) for dialler in first for dialled in ("osd0", "osd1") if dialler != dialled]
        return [proxy for pair in pairs for proxy in self.cluster.backend.proxies.on(*pair)]

    def cut(self, link: LinkKind) -> None:
        """Cut all open connections of a link."""
        for proxy in self.proxies(link):
            proxy.cut()

    @contextmanager
    def struck(self, cell: Cell) -> Iterator[list[Strike]]:
        """Apply the cell's rule to all proxies of its link during the block; yields the strikes."""
        placed: list[tuple[FaultProxy, list[Strike]]] = []
        for proxy in self.proxies(cell.link):
            made = strikes(cell.rule, *proxy.parties)
            proxy.follow(made, lambda _strike: None)
            placed.append((proxy, made))
        try:
            yield [strike for _, made in placed for strike in made]
        finally:
            for proxy, made in placed:
                proxy.forget(made)

    def ended(self) -> str:
        """Return why daemons exited, by assertion or signal; empty if all run.

        The text has no names of daemons, so that the same cause has the same text.
        """
        ended = [node for name, node in self.cluster.nodes.items() if name != _APP and not node.alive]
        return "; ".join(sorted({f"a daemon ended: {self._last_words(node.host.directory)}" for node in ended}))

    @staticmethod
    def _last_words(directory: Path) -> str:
        for path in sorted(directory.glob("*.log")):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _LAST_BYTES))
                if found := _LAST_WORDS.search(file.read().decode(errors="replace")):
                    return found[0]
        return "its log has no assertion and no signal"

    # ---- files of a cell

    @contextmanager
    def watched(self, directory: Path, link: LinkKind) -> Iterator[None]:
        """Capture packets while the block lasts, and store them with keys and logs in a directory."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        node = "osd0" if link is LinkKind.DAEMONS else _APP
        before = {path: path.stat().st_size for path in self._logs()}
        self.cluster.start_capture(node, f"{uuid.uuid4().hex}.pcapng")
        try:
            yield
        finally:
            taken = self.cluster.stop_capture(node)
            if taken.path is not None:
                taken.path.replace(directory / "capture.pcapng")
            for path in self._logs():
                with path.open("rb") as source, contextlib.suppress(OSError):
                    source.seek(before.get(path, 0))
                    if grown := source.read():
                        _write(directory / f"{path.parent.name}-{path.name}", grown)
            write_private(directory / "ceph.keyring", (self.cluster.directory / CEPH_KEYRING).read_bytes())

    def _logs(self) -> list[Path]:
        return [path for path in self.cluster.directory.glob("*/*.log") if path.is_file()]


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with new_file(path) as file:
        file.write(content)


def finished(work: "Future[str]", within_s: float) -> bool:
    """True if a client program exits within ``within_s``, with or without an error."""
    try:
        work.result(within_s)
    except StillRunning:
        return False
    except LocalError:
        return True
    return True


def pieces(text: str) -> list[str]:
    """Split the content of an object into its pieces."""
    return _PIECE.findall(text)
