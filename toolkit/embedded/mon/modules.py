"""Questions to modules of a manager that have nothing to do here: no crash, no device, no plan, no progress."""

import errno
from typing import Any, NamedTuple

from toolkit.embedded.mon.answers import COMMANDS, Answer, Arguments, CommandError
from toolkit.embedded.mon.cluster import Cluster


class _Idle(NamedTuple):
    """What a command of a module shows when there is nothing; ``text`` None: the value as JSON in every format."""

    about: str
    value: Any
    text: str | None = None
    status: str = ""


_BALANCER = {"active": False, "last_optimize_duration": "", "last_optimize_started": "", "mode": "none"}
_BALANCER_RESULT = {"no_optimization_needed": False, "optimize_result": "", "plans": []}
_IDLE = {
    "balancer status": _Idle("Show balancer status", _BALANCER | _BALANCER_RESULT),
    "balancer ls": _Idle("List all plans", []),
    "crash ls": _Idle("Show new and archived crash dumps", [], ""),
    "crash ls-new": _Idle("Show new crash dumps", [], ""),
    "crash stat": _Idle("Summarize recorded crashes", None, "0 crashes recorded\n"),
    "crash archive-all": _Idle("Acknowledge all new crashes and silence health warning(s)", None, ""),
    "device ls": _Idle("list the disks: there are none", [], "DEVICE  HOST:DEV  DAEMONS  WEAR  LIFE EXPECTANCY\n"),
    "telemetry status": _Idle("Show current configuration", {"enabled": False, "last_upload": None}),
    "progress": _Idle("Show progress of recovery operations", None, "", "Nothing in progress"),
    "progress json": _Idle("Show machine readable progress information", {"completed": [], "events": []}),
    "rbd task list": _Idle("List pending or running asynchronous tasks", []),
    "fs volume ls": _Idle("List volumes", []),
    "fs status": _Idle("Show the status of a CephFS filesystem", {"clients": [], "mdsmap": [], "pools": []}, ""),
    "mds metadata": _Idle("print the metadata of the MDSs: there are none", []),
    "mds versions": _Idle("count the MDSs by version", {}),
    "mgr services": _Idle("print the addresses at which modules of the manager serve", {}),
    "pg debug unfound_objects_exist": _Idle("check if objects are missing", None, "FALSE\n"),
}
_ORCHESTRATOR = ("status", "ls", "ps", "host ls", "device ls", "upgrade status")


def _add(prefix: str, idle: _Idle) -> None:
    def answer(_cluster: Cluster, _arguments: Arguments) -> Answer:
        return Answer(idle.value, idle.text, idle.status)

    COMMANDS.add(prefix, idle.about)(answer)


for _prefix, _answered in _IDLE.items():
    _add(_prefix, _answered)


def orchestrator(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph orch ...``: fails with ENOENT, as in a cluster without an orchestrator."""
    raise CommandError(errno.ENOENT, "No orchestrator configured (try `ceph orch set backend`)")


for _words in _ORCHESTRATOR:
    COMMANDS.add(f"orch {_words}", "ask the orchestrator")(orchestrator)


@COMMANDS.add("crash info name=id,type=CephString", "show crash dump metadata")
def crash_info(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph crash info ID``: there are none."""
    return Answer(status=f"crash info: {arguments['id']} not found")


@COMMANDS.add("mgr module ls", "print the modules of the manager")
def module_ls(_cluster: Cluster, _arguments: Arguments) -> Answer:
    """``ceph mgr module ls``: this manager runs none."""
    value: dict[str, list[str]] = {"always_on_modules": [], "enabled_modules": [], "disabled_modules": []}
    return Answer(value, "MODULE\n")


@COMMANDS.add(
    "mgr module enable name=module,type=CephString name=force,type=CephChoices,strings=--force,req=false",
    "enable a module of the manager",
)
def module_enable(_cluster: Cluster, arguments: Arguments) -> Answer:
    """``ceph mgr module enable MODULE``: ENOENT, there are none."""
    raise CommandError(errno.ENOENT, f"all mgr daemons do not support module '{arguments['module']}'")
