"""Run one program in namespaces of its own, with a view of this machine's files that it cannot write to.

``python confined.py PLAN`` is a program of its own, which needs nothing but the standard library. User-mode Linux
runs below it: its guest reads files with the rights of that process, and root in the guest can mount any directory
of the host, or run code of its own in the process by loading a module. So the process itself is confined:

* Its root directory is a file system in memory, which shows the host's files in one directory. All mounts of them
  are read-only and without devices. Only the directories that the plan names can be written to.
* It has network, IPC and process namespaces of its own, and no capabilities except those that root needs to read
  and write files of other users.

The program is the first process of its process namespace and gets SIGKILL when this one ends, which gets SIGKILL
when its parent ends; so all its processes end with the parent.
"""

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_FAILED: Final = 126

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h, linux/personality.h; syscall numbers of x86-64
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x0002_0000, 0x0800_0000, 0x1000_0000
_CLONE_NEWPID, _CLONE_NEWNET = 0x2000_0000, 0x4000_0000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC = 1, 2, 4, 0x1000, 0x4000
_MS_PRIVATE, _MNT_DETACH = 0x4_0000, 2
_MOUNT_SETATTR, _PIVOT_ROOT, _CAPSET = 442, 155, 126
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITY_VERSION = 0x2008_0522
_CHOWN, _DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER, _FSETID = range(5)
_KEPT = (_CHOWN, _DAC_OVERRIDE, _DAC_READ_SEARCH, _FOWNER, _FSETID)
_LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")
_NULL = "dev/null"
_ADDR_NO_RANDOMIZE = 0x0004_0000

_libc = ctypes.CDLL(None, use_errno=True)


def main(plan: Mapping[str, Any]) -> int:
    """Run the program of a plan; returns its exit code.

    Args:
        plan: ``argv``; ``environment``, which adds to this process's; ``directory`` for the new root;
            ``memory_mib``, the most that files in memory may take; ``host``, the directory of the new
            root that shows the host's files; ``hidden``, directories of the host that are empty there; ``binds``,
            more files and directories of the host by their paths below the new root; ``writable``, those of them
            that can be written to.
    """
    try:
        _die_with_parent()
        _unshare()
        return _run_in_namespaces(plan)
    except OSError as error:
        print(f"{error.filename or 'confinement'}: {error.strerror}", file=sys.stderr)
    return _FAILED


def _unshare() -> None:
    """Enter new namespaces; those of an ordinary user include a user namespace, in which the user keeps its id."""
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    _call("unshare", flags if uid == 0 else flags | _CLONE_NEWUSER)
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _run_in_namespaces(plan: Mapping[str, Any]) -> int:
    """Start the first process of the process namespace and wait for it, or be that process."""
    alive, held = os.pipe()  # nothing is written to it: its end is that of this process
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if pid := os.fork():
        os.close(alive)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return _code(os.waitpid(pid, 0)[1])  # when all processes of the namespace have ended
    os.close(held)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    _make_root(plan)
    _drop_capabilities()
    _die_with_parent()  # last, because a change of the capabilities ends it
    return _FAILED if select.select([alive], [], [], 0)[0] else _run(plan["argv"], plan["environment"])


def _run(argv: list[str], environment: Mapping[str, str]) -> int:
    """Run the program as a child of the first process; returns its exit code.

    Its processes that remain then are killed with the namespace. The first process itself would get no signal that
    it sends to itself, as UML does to end.
    """
    program = os.fork()
    if not program:
        _call("personality", _ADDR_NO_RANDOMIZE)  # else UML would start itself again
        os.execve(argv[0], argv, {**os.environ, **environment})  # noqa: S606 - with the words of the plan
    while True:
        pid, status = os.wait()
        if pid == program:
            return _code(status)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _make_root(plan: Mapping[str, Any]) -> None:
    """Make a file system in memory with all that the plan names, and enter it."""
    _mount("", "/", _MS_REC | _MS_PRIVATE)
    top = Path(plan["directory"])
    _mount("tmpfs", top, _MS_NOSUID | _MS_NODEV, "tmpfs", f"size={plan['memory_mib']}m,mode=700")
    host = top / plan["host"]
    host.mkdir()
    opened = {name: os.open(path, os.O_PATH | os.O_CLOEXEC) for name, path in plan["binds"].items()}
    _mount("/", host, _MS_BIND | _MS_REC)
    for each in plan["hidden"]:
        with suppress(FileNotFoundError, NotADirectoryError):
            _mount("tmpfs", host / each.lstrip("/"), _MS_NOSUID | _MS_NODEV, "tmpfs")
    _restrict(host, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, _AT_RECURSIVE)
    for name, descriptor in opened.items():
        _bind(Path(f"/proc/self/fd/{descriptor}"), top / name, is_writable=name in plan["writable"])
        os.close(descriptor)
    for name in ("dev", "proc", "tmp"):
        (top / name).mkdir()
    (top / _NULL).touch()
    _mount("/dev/null", top / _NULL, _MS_BIND)
    _mount("proc", top / "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "proc")
    os.chdir(top)
    _syscall(_PIVOT_ROOT, b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def _bind(source: Path, to: Path, *, is_writable: bool) -> None:
    """Show a file or directory of the host at another path."""
    if source.is_dir():
        to.mkdir(parents=True)
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.touch()
    _mount(source, to, _MS_BIND)
    _restrict(to, _ATTR_NOSUID | _ATTR_NODEV | (0 if is_writable else _ATTR_RDONLY))


def _restrict(path: Path, attributes: int, flags: int = 0) -> None:
    """Set attributes of a mount; with AT_RECURSIVE, of those below it, too."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    _syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def _drop_capabilities() -> None:
    """Drop all capabilities but those to read and write files of other users, for good."""
    for each in range(int(_LAST_CAPABILITY.read_text()) + 1):
        if each not in _KEPT:
            _call("prctl", _PR_CAPBSET_DROP, each, 0, 0, 0)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    kept = sum(1 << each for each in _KEPT)
    data = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _syscall(_CAPSET, ctypes.byref(head), ctypes.byref(data))


def _die_with_parent() -> None:
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _mount(source: str | Path, target: str | Path, flags: int, kind: str = "", data: str = "") -> None:
    try:
        _call("mount", os.fsencode(source), os.fsencode(target), kind.encode(), flags, data.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None


def _syscall(number: int, *args: Any) -> None:  # noqa: ANN401 - of any type that C has
    _call("syscall", number, *args)


def _call(name: str, *args: Any) -> None:  # noqa: ANN401 - of any type that C has
    """Call a function of the C library; raises OSError."""
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    if getattr(_libc, name)(*converted) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
