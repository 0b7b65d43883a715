"""Steps of two clients of a file system: ``python3 file_steps.py CONF``.

Runs with the libraries of the captured release. Each line of standard input names a step, and ``ok`` is printed
when it is done. The directories /a, /b and /c are pinned to one rank each.
"""

import ctypes
import os
import sys
from typing import Any

import cephfs  # type: ignore[import-not-found]  # a package of Ceph, as old as the release

CONF = sys.argv[1]
TREES = ("/a", "/b", "/c")
NEXT = {"/a": "/b", "/b": "/c", "/c": "/a"}
FILES = range(2)
READINGS = 3
QUOTA_BYTES = 1000000
UUID = b"gateway-1"


def mounted() -> Any:  # noqa: ANN401 - a cephfs.LibCephFS
    """Return a client that has mounted the file system."""
    client = cephfs.LibCephFS(conffile=CONF, auth_id="admin")
    client.mount()
    return client


def put(path: str) -> None:
    """Write a small file."""
    handle = first.open(path, "w", 0o644)
    first.write(handle, b"content " * 50, 0)
    first.close(handle)


def names(client: Any, tree: str) -> list[str]:  # noqa: ANN401 - as above
    """Return the paths of the entries of a directory."""
    handle = client.opendir(tree)
    found: list[str] = []
    while entry := client.readdir(handle):
        if entry.d_name not in (b".", b".."):
            found.append(f"{tree}/{entry.d_name.decode()}")
    client.closedir(handle)
    return found


def make() -> None:
    """Make the directories, and pin them."""
    for rank, tree in enumerate(TREES):
        first.mkdir(tree, 0o755)
        first.mkdir(f"{tree}/deep", 0o755)
        first.setxattr(tree, "ceph.dir.pin", b"%d" % rank, 0)
        put(f"{tree}/deep/file")


def use() -> None:
    """Links between ranks, and a quota that the other client learns of since it has the directory open."""
    for tree in TREES:
        for number in FILES:
            put(f"{tree}/file{number}")
    for there, here in NEXT.items():
        first.link(f"{there}/file0", f"{here}/linked")
    first.mkdir("/b/quota", 0o755)
    second.opendir("/b/quota")
    first.setxattr("/b/quota", "ceph.quota.max_bytes", b"%d" % QUOTA_BYTES, 0)


def share() -> None:
    """Read directories so often that other ranks get copies of them."""
    for _ in range(READINGS):
        for tree in TREES:
            names(second, tree)
            second.stat(f"{tree}/file0")


def move() -> None:
    """Rename files and directories to other ranks, then pin each tree to the next rank."""
    for there, here in NEXT.items():
        first.rename(f"{there}/file1", f"{here}/moved")
        first.rename(f"{there}/deep", f"{here}/deeper")
    for rank, tree in enumerate(TREES, 1):
        first.setxattr(tree, "ceph.dir.pin", b"%d" % (rank % len(TREES)), 0)


def reclaim() -> None:
    """Take over the session of another client by its uuid, as a gateway does that was started again."""
    library = ctypes.CDLL("libcephfs.so.2")

    def created() -> ctypes.c_void_p:
        client = ctypes.c_void_p()
        assert library.ceph_create(ctypes.byref(client), b"admin") == 0
        assert library.ceph_conf_read_file(client, CONF.encode()) == 0
        return client

    before, after = created(), created()
    assert library.ceph_mount(before, b"/") == 0
    library.ceph_set_uuid(before, UUID)
    assert library.ceph_mkdir(before, b"/made", 0o755) == 0  # opens a session that has the uuid
    assert library.ceph_init(after) == 0
    assert library.ceph_start_reclaim(after, UUID, 1) == 0
    library.ceph_finish_reclaim(after)
    assert library.ceph_mount(after, b"/") == 0
    library.ceph_unmount(after)


def look() -> None:
    """Read everything by a new client, which the ranks answer from copies or by opening inodes of other ranks."""
    client = mounted()
    for tree in TREES:
        for name in names(client, tree):
            client.stat(name)
    client.unmount()


if __name__ == "__main__":
    first, second = mounted(), mounted()
    for line in sys.stdin:
        {step.__name__: step for step in (make, use, share, move, reclaim, look)}[line.strip()]()
        print("ok", flush=True)
    os._exit(0)  # without an end of the sessions, for which a failed MDS could let it wait
