"""Scripts that run in a virtual machine: two init scripts for BusyBox, and the program's own."""

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.machine.labels import PROCESS_VARIABLE
from toolkit.machine.leases import STATE_VARIABLE
from toolkit.machine.vm.initramfs import archive
from toolkit.machine.vm.kernels import Kernel

BOOTED, CODE, STDOUT, STDERR, INIT, COMMAND = "booted", "code", "stdout", "stderr", "init", "command"
"""Names of files that are exchanged between host and guest."""
NO_DIRECTORY = 125
"""Exit code if the working directory does not exist in the guest."""
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_KEPT_OUT = {PROCESS_VARIABLE, STATE_VARIABLE, "XDG_RUNTIME_DIR"}
"""Variables that are not passed on: they name objects of the host, and the guest has a /run of its own."""

_9P = "trans=virtio,version=9p2000.L,msize=512000"
_FIRST_INIT = f"""#!/busybox sh
B=/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
for module in /early/*; do $B insmod $module; done
$B mount -t 9p -o ro,{_9P},cache=loose root /lower || $B poweroff -f
$B mount -t tmpfs tmpfs /upper; $B mkdir /upper/data /upper/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root
for d in proc sys dev; do $B mount --move /$d /root/$d; done
$B mkdir -p /root/lib/modules /root/run /root/dev/pts /root/dev/shm
$B mount -t 9p -o ro,{_9P},cache=loose modules /root/lib/modules
$B mount -t devpts devpts /root/dev/pts
for d in dev/shm run; do $B mount -t tmpfs tmpfs /root/$d; done
$B mkdir -p /root/run/msgrlab/vm /root/run/lock; $B cp /busybox /root/run/msgrlab/busybox
$B chmod 700 /root/run/msgrlab
$B mount -t 9p -o {_9P},access=any,cache=none share /root/run/msgrlab/vm
$B ip link set lo up; $B hostname msgrlab-vm
exec $B switch_root /root /run/msgrlab/vm/{INIT}
"""
_SECOND_INIT = f"""#!/run/msgrlab/busybox sh
B=/run/msgrlab/busybox
cd /run/msgrlab
%(prepare)s
$B mkfifo {STDOUT} {STDERR}
$B cat {STDOUT} >> vm/{STDOUT} & out=$!
$B cat {STDERR} >> vm/{STDERR} & err=$!
$B cut -d' ' -f1 /proc/uptime > vm/.{BOOTED}; $B mv vm/.{BOOTED} vm/{BOOTED}
/bin/sh vm/{COMMAND} < /dev/null > {STDOUT} 2> {STDERR}
code=$?
for process in /proc/[0-9]*; do
    case ${{process#/proc/}} in
        1|$out|$err) ;;
        *) kill -9 ${{process#/proc/}} 2> /dev/null ;;
    esac
done
wait $out $err
echo $code > vm/.{CODE}; $B mv vm/.{CODE} vm/{CODE}
$B sync
$B poweroff -f
"""


def initramfs(kernel: Kernel) -> bytes:
    """Return the archive that a kernel boots from: it mounts the host's files and hands over to :func:`init`."""
    directories = ["dev", "proc", "sys", "lower", "upper", "root", "early"]
    modules = {f"early/{path.name}": path.read_bytes() for path in kernel.early_modules}
    return archive(directories, {"busybox": kernel.busybox.read_bytes(), "init": _FIRST_INIT.encode(), **modules})


def init(path: str, out: Path | None) -> str:
    """Return the init script that runs on the host's files: it runs the program, then powers the guest off.

    Args:
        path: PATH, where the guest's kernel finds modprobe.
        out: directory to mount read-write, by its path on the host.
    """
    modprobe = shutil.which("modprobe", path=path) or "modprobe"
    # Full paths, because BusyBox's shell prefers its built-in commands to those in PATH.
    prepare = [f"export PATH={shlex.quote(path)}", f"echo {shlex.quote(modprobe)} > /proc/sys/kernel/modprobe"]
    if out is not None:
        where = shlex.quote(str(out))
        prepare += [f"$B mkdir -p {where}", f"$B mount -t 9p -o {_9P},access=any,cache=none out {where}"]
    return _SECOND_INIT % {"prepare": "\n".join(prepare)}


def command(argv: Sequence[str], directory: Path, environment: Mapping[str, str]) -> str:
    """Return the script that execs the program, in this directory and with this environment."""
    lines = [
        f"export {name}={shlex.quote(value)}"
        for name, value in environment.items()
        if _VARIABLE.fullmatch(name) and name not in _KEPT_OUT
    ]
    lines += [f"cd {shlex.quote(str(directory))} || exit {NO_DIRECTORY}", f"exec {shlex.join(argv)}"]
    return "\n".join(lines) + "\n"
