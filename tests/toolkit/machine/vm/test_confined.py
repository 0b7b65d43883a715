"""User-mode Linux cannot change files of the host, whatever root in the guest does, nor could its kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guests import OTHERS, Guests, grouped
from tests.support.users import needs_root
from toolkit.machine import vm
from toolkit.machine.vm import confined

pytestmark = [*grouped(OTHERS), pytest.mark.needs("uml")]

IN_GUEST = """
busybox=/run/msgrlab/busybox
mkdir /tmp/whole && $busybox mount -t hostfs -o / none /tmp/whole || exit 1
for path in "$@"; do
    for root in "" /tmp/whole/root; do
        echo changed > $root$path
        $busybox rm -f $root$path
        $busybox chmod 777 $root$path
    done
    $busybox mount -t hostfs -o $($busybox dirname /root$path) none /mnt
    echo changed > /mnt/$($busybox basename $path)
    $busybox umount /mnt
done 2> /dev/null
$busybox ls -A /tmp/whole/root/run /tmp/whole/root/dev /tmp/whole/root/proc
"""
IN_PROCESS = """
here=/host%(file)s
echo changed > $here
$b mount -o remount,rw /host && echo remounted
$b mount -o remount,rw,bind /host && echo remounted
$b umount -l /host && echo unmounted
$b mount -t tmpfs none /tmp && echo mounted
$b mknod /tmp/disk b 254 0 && echo made
$b unshare -m true && echo unshared
$b kill -9 %(pid)d && echo killed
$b ls /proc | $b grep -x %(pid)d
$b cat /proc/net/dev | $b grep -v -e lo: -e '|'
$b grep -E "Cap(Eff|Prm|Bnd)|NoNewPrivs" /proc/self/status
echo written > /out/file
echo refused > /given/file
"""
KEPT_CAPABILITIES = 0b11111
"""CAP_CHOWN to CAP_FSETID."""


def test_root_in_the_guest_changes_no_file_of_the_host(guests: Guests, tmp_path: Path) -> None:
    file, program = tmp_path / "file", tmp_path / "script"
    file.write_text("as it was")
    file.chmod(0o640)
    program.write_text(IN_GUEST)
    done = guests.with_kernel("uml").run(["sh", str(program), str(file)], timeout_s=60)
    hidden = ["/tmp/whole/root/run:", "/tmp/whole/root/dev:", "/tmp/whole/root/proc:"]
    assert (done.code, done.stderr, done.stdout.split()) == (0, "", sorted(hidden, key=done.stdout.index))
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("as it was", 0o640)


def run_confined(directory: Path, script: str) -> str:
    """Run a script in the place of the kernel; returns its output."""
    (directory / "root").mkdir()
    (directory / "out").mkdir()
    (directory / "given").mkdir()
    plan = {
        "argv": ["/busybox", "sh", "-c", f"b=/busybox\n{script}"],
        "environment": {},
        "directory": str(directory / "root"),
        "memory_mib": 16,
        "host": "host",
        "binds": {
            "busybox": str(vm.find("uml").busybox),
            "out": str(directory / "out"),
            "given": str(directory / "given"),
        },
        "writable": ["out"],
        "hidden": ["/dev", "/proc", "/run", "/sys"],
    }
    command = [sys.executable, "-I", "-S", confined.__file__, json.dumps(plan)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout


@needs_root
def test_the_process_itself_can_change_nothing_but_what_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("as it was")
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        output = run_confined(tmp_path, IN_PROCESS % {"file": file, "pid": sleeper.pid})
        assert sleeper.poll() is None
        sleeper.kill()
    about = dict(line.split(":\t") for line in output.splitlines())
    assert about.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for value in about.values()} == {KEPT_CAPABILITIES}
    assert set(about) == {"CapPrm", "CapEff", "CapBnd"}
    assert file.read_text() == "as it was"
    assert (tmp_path / "out/file").read_text() == "written\n"
    assert not (tmp_path / "given/file").exists()
