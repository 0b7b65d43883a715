"""Scripts that run in a virtual machine: two init scripts for BusyBox, and one for each program."""

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit.machine.interpreters import PYTHON
from toolkit.machine.labels import BLANK, PROCESS_VARIABLE
from toolkit.machine.leases import STATE_VARIABLE
from toolkit.machine.vm.engine import BYTECODE, INTERFACE, MODULES, OUT, ROOT, SHARE, WITH_BYTECODE, Engine
from toolkit.machine.vm.initramfs import archive
from toolkit.machine.vm.kernels import Kernel
from toolkit.machine.vm.networks import Attachment

BOOTED, CODE, STDOUT, STDERR, INIT, COMMAND = "booted", "code", "stdout", "stderr", "init", "command"
"""Names of files that are exchanged between host and guest; each program has a directory of them."""
MODULE, FORKS = "module", "forks"
"""A program that is a Python module, in place of its command; the script that starts
:mod:`~toolkit.machine.vm.forks`."""
FILES, FORKS_PID = "vm", "forks.pid"
"""Names in the guest, in the directory in which init runs programs."""
REQUESTS, ANSWERS = 4, 5
"""Descriptors of the pipes to and from :mod:`~toolkit.machine.vm.forks`."""
NO_DIRECTORY = NO_INTERPRETER = 125
"""Exit code if the working directory does not exist in the guest, or Python cannot import what it should."""
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_KEPT_OUT = {
    *(PROCESS_VARIABLE, STATE_VARIABLE, "XDG_RUNTIME_DIR"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
}
"""Variables that are not passed on.

They name objects of the host, and the guest has a /run of its own; or they forbid Python to keep bytecode beside
the sources, which in the guest stays in memory and saves seconds.
"""

_FIRST_INIT = f"""#!/busybox sh
B=/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
for module in /early/*; do $B insmod $module; done
$B mount %(root)s /lower || $B poweroff -f
$B mount -t tmpfs tmpfs /upper; $B mkdir /upper/data /upper/work
lower=/lower
if $B grep -qw {WITH_BYTECODE} /proc/cmdline; then
    $B mount %(bytecode)s /bytecode && lower=/bytecode:/lower
fi
$B mount -t overlay -o %(overlay)slowerdir=$lower,upperdir=/upper/data,workdir=/upper/work overlay /root
for d in proc sys dev; do $B mount --move /$d /root/$d; done
$B mkdir -p /root/lib/modules /root/run /root/dev/pts /root/dev/shm
$B mount %(modules)s /root/lib/modules
$B mount -t devpts devpts /root/dev/pts
for d in dev/shm run; do $B mount -t tmpfs tmpfs /root/$d; done
$B mkdir -p /root/run/msgrlab/{FILES} /root/run/lock; $B cp /busybox /root/run/msgrlab/busybox
$B chmod 700 /root/run/msgrlab
$B mount %(share)s /root/run/msgrlab/{FILES}
$B ip link set lo up; $B hostname msgrlab-vm
exec $B switch_root /root /run/msgrlab/{FILES}/{INIT}
"""
_SECOND_INIT = f"""#!/run/msgrlab/busybox sh
B=/run/msgrlab/busybox
cd /run/msgrlab
%(prepare)s
exec 3< %(jobs)s
$B stty raw -echo <&3
$B mkfifo requests answers
exec {REQUESTS}<> requests {ANSWERS}<> answers
forks=
$B cut -d' ' -f1 /proc/uptime > {FILES}/.{BOOTED}; $B mv {FILES}/.{BOOTED} {FILES}/{BOOTED}
while read -r job how <&3; do
    share={FILES}/$job
    $B mkfifo {STDOUT} {STDERR}
    $B cat {STDOUT} >> $share/{STDOUT} 3<&- & out=$!
    $B cat {STDERR} >> $share/{STDERR} 3<&- & err=$!
    exec 6> {STDOUT} 7> {STDERR}
    if [ $how = {MODULE} ]; then
        if [ -z "$forks" ]; then
            (/bin/sh {FILES}/{FORKS} > {FORKS}.log 2>&1; echo ended >&{ANSWERS}) < /dev/null 3<&- 6>&- 7>&- &
            forks=$!
        fi
        echo $job >&{REQUESTS}
        read -r code <&{ANSWERS}
        if [ $code = ended ]; then
            $B cat {FORKS}.log >&7
            code={NO_INTERPRETER} forks=
        fi
    else
        /bin/sh $share/{COMMAND} < /dev/null >&6 2>&7 3<&- {REQUESTS}<&- {ANSWERS}<&- 6>&- 7>&-
        code=$?
    fi
    exec 6>&- 7>&-
    spared=" 1 $out $err $forks "
    [ -z "$forks" ] || spared="$spared$($B cat {FORKS_PID}) "
    for process in /proc/[0-9]*; do
        process=${{process#/proc/}}
        case $spared in
            *" $process "*) ;;
            *) kill -9 $process 2> /dev/null ;;
        esac
    done
    wait $out $err
    $B rm {STDOUT} {STDERR}
    echo $code > $share/.{CODE}; $B mv $share/.{CODE} $share/{CODE}
done
$B poweroff -f
"""


def initramfs(kernel: Kernel, engine: Engine) -> bytes:
    """Return the archive that a kernel boots from: it mounts the host's files and hands over to :func:`init`."""
    shares = {tag: engine.mounted(tag) for tag in (ROOT, BYTECODE, MODULES)}
    script = _FIRST_INIT % {**shares, "overlay": engine.overlay(), SHARE: engine.mounted(SHARE, is_writable=True)}
    directories = ["dev", "proc", "sys", "lower", "bytecode", "upper", "root", "early"]
    modules = {f"early/{path.name}": path.read_bytes() for path in kernel.early_modules}
    return archive(directories, {"busybox": kernel.busybox.read_bytes(), "init": script.encode(), **modules})


def init(
    engine: Engine, path: str, out: Path | None, attachment: Attachment | None = None, *, has_port: bool = False
) -> str:
    """Return the init script that runs on the host's files: it runs programs, one for each line of its input.

    A line of the engine's input is the name of the program's directory in the share. After each program, all
    processes that it has left are killed.

    Args:
        engine: what runs the kernel.
        path: PATH, where the guest's kernel finds modprobe.
        out: directory to mount read-write, by its path on the host.
        attachment: the guest's network, if it has one.
        has_port: True if the engine has a socket for :data:`~toolkit.machine.vm.engine.PORT`.
    """
    modprobe = shlex.quote(shutil.which("modprobe", path=path) or "modprobe")
    # Full paths, because BusyBox's shell prefers its built-in commands to those in PATH.
    prepare = [f"export PATH={shlex.quote(path)}", f"echo {modprobe} > /proc/sys/kernel/modprobe"]
    prepare += engine.settings()
    # The device of tap interfaces, for which the kernel loads its module when a program opens it.
    prepare.append("$B mkdir -p /dev/net; [ -e /dev/net/tun ] || $B mknod /dev/net/tun c 10 200")
    if attachment is not None:
        prepare += [*engine.interface(modprobe), *_address(attachment)]
    if has_port:
        prepare += engine.port(modprobe)
    if out is not None:
        where = shlex.quote(str(out))
        prepare += [f"$B mkdir -p {where}", f"$B mount {engine.mounted(OUT, is_writable=True)} {where}"]
    return _SECOND_INIT % {"prepare": "\n".join(prepare), "jobs": engine.jobs}


def _address(attachment: Attachment) -> list[str]:
    """Return the lines that give the guest's interface its address."""
    return [
        # no duplicate detection: the address can be used at once
        f"echo 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad",
        f"$B ip link set {INTERFACE} mtu {attachment.mtu} up",
        f"$B ip address add {attachment.address} dev {INTERFACE}",
    ]


def command(argv: Sequence[str], directory: Path, environment: Mapping[str, str]) -> str:
    """Return the script that execs the program, in this directory and with this environment."""
    lines = [
        f"export {name}={shlex.quote(value)}"
        for name, value in passed_on(environment).items()
        if _VARIABLE.fullmatch(name)
    ]
    lines += [f"cd {shlex.quote(str(directory))} || exit {NO_DIRECTORY}", f"exec {shlex.join(argv)}"]
    return "\n".join(lines) + "\n"


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that make sense in the guest."""
    return {name: value for name, value in environment.items() if name not in _KEPT_OUT}


def module(name: str, args: Sequence[str], directory: Path, environment: Mapping[str, str]) -> str:
    """Return the description of a program that is a Python module, for :mod:`~toolkit.machine.vm.forks`."""
    return json.dumps(
        {"module": name, "args": list(args), "directory": str(directory), "environment": passed_on(environment)}
    )


def forks(modules: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the script that starts the interpreter that imports these modules and forks for each program.

    Its label is blank: messengers that a program forks have the environment of this interpreter in /proc, where
    their cluster writes its label (:func:`~toolkit.machine.labels.label_this_process`).
    """
    argv = ["env", f"{PROCESS_VARIABLE}={BLANK}", *PYTHON, "-m", "toolkit.machine.vm.forks", *modules]
    return command(argv, Path("/run/msgrlab"), environment)
