"""Builds ``msgr-anchor``, which runs Ceph's own messenger, in its own Debian.

The messenger is Debian's ``librados2``; the headers are those of its source package. The program runs without root
and without a chroot, with the loader and the libraries of the Debian system in its folder.
"""

import shutil
from importlib.resources import files
from pathlib import Path

from messenger.errors import LocalError
from toolkit.cluster.images import debian
from toolkit.cluster.images.archive import Archive
from toolkit.cluster.images.work import Report, Work, alone, silent, whole
from toolkit.machine.private import check_own

PROGRAM = "msgr-anchor"
"""Name of the program; its source is ``msgr-anchor.cc``."""
RELEASE = "tentacle"
"""Release of Ceph; the Debian suite is that of its image."""
PACKAGES = ("g++", "librados2", "libboost-dev", "python3-yaml", "xz-utils")
_ROOT = "root"
_READY = "root/build/of-version"
"""File with the version of Ceph's package; exists once the Debian system and the headers are complete."""
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-D__CEPH__", "-D_FILE_OFFSET_BITS=64", "-DFMT_HEADER_ONLY")
_COMPILE = """\
cd /build
exec g++ "$@" -I. -Isrc -Isrc/fmt/include msgr-anchor.cc -o msgr-anchor /usr/lib/*/ceph/libceph-common.so.2
"""
_RUN = """\
#!/bin/sh
root=$(dirname -- "$(readlink -f -- "$0")")/root
set -- "$root/build/msgr-anchor" "$@"
for libraries in "$root"/usr/lib/*-linux-gnu*; do
    exec "$libraries"/ld-linux-*.so.? --library-path "$libraries:$libraries/ceph" "$@"
done
"""


def build(
    directory: Path, announce: Report = print, report: Report = silent, archive: Archive | None = None
) -> Path:
    """Build the program in a Debian system, which is installed first if it does not exist; return its path.

    Args:
        directory: folder for about 1.2 GB; new, empty, or of an earlier build. The log is written next to it.
        announce: called with one line about the downloads, their source, and how they are verified.
        report: called with each step.
        archive: Debian's archive; None for :meth:`Archive.wanted`.

    Raises:
        LocalError: the directory has other files, or a program failed; its output is in the log.
        Unsupported: root, ``debootstrap`` or the keys of Debian's archive are missing.
    """
    directory = directory.absolute()
    if directory.exists() and not directory.is_dir():
        raise LocalError(f"{directory} is not a directory")
    debian.check_means()
    with alone(directory, announce):
        work = Work(directory.with_name(f"{directory.name}.log"), report)
        if (directory / _READY).exists():
            check_own(directory, "build")
        else:
            _make_debian(work, directory, announce, archive or Archive.wanted())
        return _compile(work, directory)


def version(directory: Path) -> str:
    """Return the version of Debian's Ceph package from which a build was made, as in ``20.2.4-1``."""
    return (directory / _READY).read_text(encoding="ascii").strip()


def _make_debian(work: Work, directory: Path, announce: Report, archive: Archive) -> None:
    if directory.exists() and any(directory.iterdir()):
        raise LocalError(f"{directory} contains other files; give a new directory, or that of an earlier build")
    suite = debian.image(RELEASE).suite
    mirror = archive.mirror_of(suite)
    announce(
        f"building {PROGRAM} in {directory}: debootstrap and apt download {', '.join(PACKAGES)} and the source"
        f" of Ceph in Debian {suite.name} from {mirror}, verify them with {archive.keys()} and run the packages'"
        " scripts as root in a chroot (three minutes and 1.2 GB)"
    )
    with whole(directory) as unfinished:
        root = unfinished / _ROOT
        root.mkdir()
        debian.install(work, archive, suite, root, PACKAGES)
        sources = root / "etc/apt/sources.list.d/source.list"
        sources.write_text(f"deb-src {mirror} {suite.name} main\n", encoding="ascii")
        (root / "build").mkdir()
        shutil.copyfile(_source("headers.sh"), root / "build/headers.sh")
        work.run(*debian.inside(root), "sh", "/build/headers.sh")


def _compile(work: Work, directory: Path) -> Path:
    root = directory / _ROOT
    shutil.copyfile(_source(f"{PROGRAM}.cc"), root / f"build/{PROGRAM}.cc")
    work.run(*debian.inside(root), "sh", "-ec", _COMPILE, "sh", *_FLAGS)
    program = directory / PROGRAM
    program.write_text(_RUN, encoding="ascii")
    program.chmod(0o755)
    return program


def _source(name: str) -> Path:
    return Path(str(files("toolkit.bench.anchor") / name))
