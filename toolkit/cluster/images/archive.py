"""Debian's archive as the source of packages, and the keys that verify them.

Every package is verified: ``debootstrap`` checks the signature of a suite's Release file with a keyring, and every
file by the hashes in it. If this machine's keyring is older than the suite, the newer package of keys is fetched
with apt, which verifies it with the older keyring.
"""

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from messenger.errors import LocalError
from toolkit.cluster.images.work import ProgramFailed, Work
from toolkit.errors import Unsupported
from toolkit.machine.changes import Tree

MIRROR = "http://deb.debian.org/debian"
SNAPSHOTS = "http://snapshot.debian.org/archive/debian"
"""Debian's archive as it was at any past time."""
MIRROR_VARIABLE = "MSGRLAB_MIRROR"
KEYRING_VARIABLE = "MSGRLAB_KEYRING"
_PACKAGED = Path("usr/share/keyrings")
"""Directory of the keys in the package debian-archive-keyring."""
_NAMES = ("debian-archive-keyring.pgp", "debian-archive-keyring.gpg")
_KEYRINGS = tuple("/" / _PACKAGED / name for name in _NAMES)
_KEYRING_PACKAGE = "debian-archive-keyring"
_SUITES = ("bullseye", "bookworm", "trixie", "sid")
"""Suites that are searched for that package."""
_UNKNOWN_KEY = "signed by unknown key"
_PROBE_TIMEOUT_S = 5.0
_MOST_RENEWALS = 3
"""Most successive keyrings to fetch: each Debian release has the keys of the next one."""
_IN_DIRECTORY = ("sh", "-ec", 'cd "$1"; shift; exec "$@"', "sh")
_DEPENDENCIES = (
    *("depends", "--recurse", "--no-pre-depends", "--no-recommends", "--no-suggests"),
    *("--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"),
)
_DEBOOTSTRAP = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--force-check-gpg")
"""Namespaces make its mounts and processes end with it."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite of Debian at a point in time."""

    name: str
    snapshot: str
    """Time of the snapshot, as in 20260901T000000Z."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The mirror that packages are fetched from, and the keys that verify them."""

    mirror: str = ""
    """URL; empty for a snapshot where one is available, else Debian's own mirrors."""
    keyring: Path | None = None
    """File with the keys of Debian's archive; None for this machine's, renewed if it is too old."""
    _found: dict[str, str] = field(default_factory=dict, compare=False)
    """Mirrors by suite."""

    @classmethod
    def wanted(cls, mirror: str = "", keyring: Path | None = None) -> Self:
        """Return the archive of the arguments, or else of ``MSGRLAB_MIRROR`` and ``MSGRLAB_KEYRING``.

        Raises:
            LocalError: there is no such keyring.
        """
        named = os.environ.get(KEYRING_VARIABLE)
        keyring = keyring or (Path(named) if named else None)
        if keyring is not None and not keyring.is_file():
            raise LocalError(f"keyring {keyring}: no such file")
        return cls((mirror or os.environ.get(MIRROR_VARIABLE, "")).rstrip("/"), keyring and keyring.absolute())

    def mirror_of(self, suite: Suite) -> str:
        """Return the URL that a suite is fetched from."""
        if self.mirror:
            return self.mirror
        if suite.name not in self._found:
            snapshot = f"{SNAPSHOTS}/{suite.snapshot}"
            self._found[suite.name] = snapshot if _answers(f"{snapshot}/dists/{suite.name}/InRelease") else MIRROR
        return self._found[suite.name]

    def keys(self) -> Path:
        """Return the keyring to use first.

        Raises:
            Unsupported: this machine has none.
        """
        found = self.keyring or next((path for path in _KEYRINGS if path.is_file()), None)
        if found is None:
            raise Unsupported(
                f"no keys of Debian's archive here: apt-get install {_KEYRING_PACKAGE}, or --keyring FILE"
            )
        return found

    def bootstrap(self, work: Work, suite: Suite, directory: Path, *options: str) -> None:
        """Make a root file system of a suite with ``debootstrap``.

        Args:
            work: runs programs.
            suite: suite of the packages.
            directory: empty directory for the file system.
            options: options of debootstrap.

        Raises:
            LocalError: it failed, or no known key has signed the suite; the message names the log.
            Unsupported: there are no keys.
        """
        keys, mirror = self.keys(), self.mirror_of(suite)
        for _ in range(_MOST_RENEWALS + 1):
            try:
                work.run(*_DEBOOTSTRAP, f"--keyring={keys}", *options, suite.name, str(directory), mirror)
            except ProgramFailed as error:
                if _UNKNOWN_KEY not in error.output:
                    raise
            else:
                return
            newer = self._renewed(work, keys, suite, mirror, directory)
            if newer is None:
                break
            keys = newer
        raise work.failed(
            f"Debian {suite.name} of {mirror} is not signed by a key in {keys}:"
            f" install a newer {_KEYRING_PACKAGE}, or give --keyring FILE"
        )

    def download(
        self, work: Work, suite: Suite, directory: Path, packages: tuple[str, ...], wanted: Callable[[str], bool]
    ) -> list[Path]:
        """Download packages and their dependencies from a suite with apt, which verifies them.

        Args:
            work: runs programs.
            suite: suite of the packages.
            directory: directory for them and for apt's files; made here.
            packages: names of the packages.
            wanted: returns True for names to download, among these packages and their dependencies.

        Raises:
            LocalError: apt failed, or no known key has signed the suite; the message names the log.
            Unsupported: there are no keys.
        """
        mirror = self.mirror_of(suite)
        # The Release file of a snapshot has expired.
        dated = " check-valid-until=no" if mirror.startswith(SNAPSHOTS) else ""
        apt = _apt(directory, [f"deb [signed-by={self.keys()}{dated}] {mirror} {suite.name} main"])
        work.run("apt-get", *apt, "--error-on=any", "update")
        listed = work.run("apt-cache", *apt, *_DEPENDENCIES, *packages).splitlines()
        names = [name for name in dict.fromkeys(listed) if not name.startswith((" ", "<")) and wanted(name)]
        work.run(*_IN_DIRECTORY, str(directory), "apt-get", *apt, "download", *names)
        return sorted(directory.glob("*.deb"))

    def _renewed(self, work: Work, keys: Path, suite: Suite, mirror: str, directory: Path) -> Path | None:
        """Return newer keys, verified with the given ones; None if there are none, or ``keyring`` is set."""
        if self.keyring is not None or shutil.which("apt-get") is None:
            return None
        Tree(str(directory)).undo()  # what debootstrap has begun
        directory.mkdir()
        work.note(f"keys in {keys} are too old for {suite.name}: looking for newer ones")
        found = directory.with_name(f"{directory.name}.keys")
        try:
            return _newer_keys(work, keys, mirror, found, directory.parent)
        except ProgramFailed:
            return None
        finally:
            Tree(str(found)).undo()


def _newer_keys(work: Work, keys: Path, mirror: str, scratch: Path, store: Path) -> Path | None:
    """Return the newest keys in a mirror's suites that older keys verify; None if they are the same.

    Args:
        work: runs programs.
        keys: the older keys.
        mirror: URL of the mirror.
        scratch: directory for apt; made here.
        store: directory for the keys.
    """
    apt = _apt(scratch, [f"deb [signed-by={keys}] {mirror} {suite} main" for suite in _SUITES])
    try:
        work.run("apt-get", *apt, "update")
    except ProgramFailed:
        work.note("some suites cannot be verified with these keys; packages come from the others")
    work.run(*_IN_DIRECTORY, str(scratch), "apt-get", *apt, "download", _KEYRING_PACKAGE)
    (package,) = scratch.glob("*.deb")
    work.run("dpkg-deb", "--extract", str(package), str(scratch / "package"))
    inside = (scratch / "package" / _PACKAGED / name for name in _NAMES)
    newer = next((path for path in inside if path.is_file()), None)
    if newer is None or newer.read_bytes() == keys.read_bytes():
        return None
    kept = store / f".{package.stem.partition('_all')[0]}.gpg"
    shutil.copyfile(newer, kept)
    return kept


def _apt(scratch: Path, sources: list[str]) -> tuple[str, ...]:
    """Return options that make apt use only these sources, and keep its files in ``scratch``, which is made."""
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "sources").write_text("".join(f"{source}\n" for source in sources))
    (scratch / "status").touch()
    options = {
        "Dir::State::Lists": scratch / "lists",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::SourceList": scratch / "sources",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Trusted": "/dev/null",
        "Dir::Etc::TrustedParts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    return tuple(word for name, value in options.items() for word in ("-o", f"{name}={value}"))


def _answers(url: str) -> bool:
    """True if a URL can be fetched, within seconds."""
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - of our own URL
    try:
        with urllib.request.urlopen(request, timeout=_PROBE_TIMEOUT_S) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
