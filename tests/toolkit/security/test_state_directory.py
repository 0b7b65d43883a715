"""Another user gets nothing by making the state directory first, or by what lies in it."""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from messenger.errors import LocalError
from tests.support.clusters import done, msgrlab, state
from tests.support.users import ANOTHER_UID, OTHER_UID, as_user, needs_root, other_user, shared
from toolkit.cluster.supervisor import wire
from toolkit.cluster.supervisor.client import ask
from toolkit.machine.leases import STATE_VARIABLE, Lease, leases

__all__ = ["shared", "state"]

pytestmark = needs_root

SPEC = "name: pair\nnodes:\n  a: {entity: osd.1}\n  b: {entity: osd.2}\n"


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory of ours that has nothing to do with any cluster."""
    directory = tmp_path / "precious"
    directory.mkdir()
    (directory / "file").write_text("precious")
    return directory


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(SPEC)
    return str(path)


def forge(directory: Path, journal: str) -> None:
    """Make a state directory with a cluster in it, as another user."""
    cluster = directory / "pair"
    cluster.mkdir(parents=True)
    (cluster / "label").write_text("pair 0 01234567\n")
    (cluster / "journal").write_text(journal)
    for path in (directory, cluster, cluster / "label", cluster / "journal"):
        path.chmod(0o777)


def is_refused(*arguments: str) -> str:
    refused = msgrlab(*arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused
    return refused.stderr


def test_forged_journal_removes_no_file(shared: Path, precious: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squatted = shared / "state"
    monkeypatch.setenv(STATE_VARIABLE, str(squatted))
    line = json.dumps({"change": "Tree", "path": str(precious)})
    as_user(OTHER_UID, lambda: forge(squatted, f"{line}\n"))
    for command in (["down", "--all"], ["down", "pair"], ["status"]):
        complaint = is_refused(*command)
        assert f"state directory {squatted} belongs to" in complaint
        assert "MSGRLAB_STATE names another directory" in complaint
    assert (precious / "file").read_text() == "precious"


@pytest.mark.parametrize("lock", [".lock", "pair/lock"])
def test_a_lock_that_is_a_symbolic_link_truncates_nothing(
    lock: str, shared: Path, precious: Path, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    squatted = shared / "state"
    monkeypatch.setenv(STATE_VARIABLE, str(squatted))

    def plant() -> None:
        forge(squatted, "")
        (squatted / lock).symlink_to(precious / "file")

    as_user(OTHER_UID, plant)
    for command in (["up", spec, "--name", "new"], ["status"]):
        is_refused(*command)
    assert (precious / "file").read_text() == "precious"


def listen_at(path: Path, answer: dict[str, object]) -> Callable[[Callable[[], None]], None]:
    """A control socket that gives everybody the same answer."""

    def serve(ready: Callable[[], None]) -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            path.chmod(0o777)
            listening.listen()
            ready()
            answer_all(listening, answer)

    return serve


def answer_all(listening: socket.socket, answer: dict[str, object]) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(json.dumps(answer).encode() + b"\n")


def test_a_forged_control_socket_runs_nothing(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squatted, marker = shared / "state", tmp_path / "was here"
    monkeypatch.setenv(STATE_VARIABLE, str(squatted))
    as_user(OTHER_UID, lambda: forge(squatted, ""))
    argv = {"result": {"argv": ["touch", str(marker)], "directory": "/"}}
    with other_user(OTHER_UID, listen_at(squatted / "pair" / wire.SOCKET, argv)):
        is_refused("exec", "a", "--", "true")
        # Also where the directory itself is as it should be: then it is the process that gives itself away.
        for path in (squatted, squatted / "pair"):
            os.chown(path, 0, 0)
            path.chmod(0o700)
        complaint = is_refused("exec", "a", "--", "true")
    assert f"belongs to uid {OTHER_UID}" in complaint
    assert not marker.exists()


def test_a_supervisor_does_nothing_for_another_user(spec: str, state: Path) -> None:
    done("up", spec)
    lease = Lease.find("pair")
    opened = (*reversed(list(lease.directory.parents)[:-2]), lease.directory)
    modes = {path: path.stat().st_mode for path in opened}
    for path in opened:
        path.chmod(0o755)
    (lease.directory / wire.SOCKET).chmod(0o777)

    def ask_for_the_end() -> dict[str, object]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(lease.directory / wire.SOCKET))
            with contextlib.suppress(BrokenPipeError):  # it may have been refused already
                connection.sendall(b'{"do":"down"}\n')
            return json.loads(connection.makefile("rb").readline())

    try:
        answer = as_user(OTHER_UID, ask_for_the_end)
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert f"belongs to uid {OTHER_UID}" in str(answer["error"])
    assert ask(lease, "status")["state"] == "up"
    done("down")


def test_a_directory_that_others_can_replace_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, open_to_all, link = shared / "theirs", shared / "open", shared / "link"
    as_user(OTHER_UID, theirs.mkdir)
    as_user(OTHER_UID, lambda: link.symlink_to(shared / "ours"))
    (shared / "detour").symlink_to("link/../link")
    (shared / "fine").symlink_to("detour/../ours")
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for path in (theirs / "state", open_to_all / "state", shared / "ours"):
        path.mkdir(mode=0o700)
    for path, complaint in (
        (theirs / "state", f"{theirs} belongs to"),
        (open_to_all / "state", f"{open_to_all} has mode 0777"),
        (link, f"{link} belongs to"),
        (link / "below", f"{link} belongs to"),
        (shared / "detour", f"{link} belongs to"),
        (shared / "fine", f"{link} belongs to"),
    ):
        monkeypatch.setenv(STATE_VARIABLE, str(path))
        with pytest.raises(LocalError, match=complaint):
            Lease.take("pair")
    monkeypatch.setenv(STATE_VARIABLE, str(shared / "ours"))
    assert Lease.take("pair").journal.undo() == []


def test_links_of_its_owner_lead_to_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "ours"
    ours.mkdir(mode=0o700)
    (tmp_path / "absolute").symlink_to(ours)
    (tmp_path / "relative").symlink_to("../" * 20 + str(tmp_path / "absolute").lstrip("/"))
    for name in ("absolute", "relative", "ours/../relative", "absolute/../ours"):
        monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / name))
        assert Lease.take("pair").journal.undo() == []
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "loop"))
    for use in (leases, lambda: Lease.take("pair")):
        with pytest.raises(LocalError, match=f"state directory {tmp_path}/loop"):
            use()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o777])
def test_a_directory_that_is_open_to_others_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "state"
    directory.mkdir()
    directory.chmod(mode)
    monkeypatch.setenv(STATE_VARIABLE, str(directory))
    for use in (leases, lambda: Lease.take("pair"), lambda: Lease.find("pair")):
        with pytest.raises(LocalError, match=rf"has mode {mode:04o}.*chmod 700 {directory}"):
            use()
    directory.chmod(0o700)
    assert leases() == []


def test_users_without_a_runtime_directory_have_one_each(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (STATE_VARIABLE, "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(shared))

    def take() -> str:
        return str(Lease.take("pair").directory)

    directories = [as_user(uid, take) for uid in (OTHER_UID, ANOTHER_UID)]
    assert directories == [f"{shared}/msgrlab-{uid}/pair" for uid in (OTHER_UID, ANOTHER_UID)]

    def undo() -> list[str]:
        return Lease.find("pair").journal.undo()

    assert [as_user(uid, undo) for uid in (OTHER_UID, ANOTHER_UID)] == [[], []]
