"""Python programs in a guest, as forks of one interpreter that has imported their modules.

Imports take an emulated guest ten seconds and more, so they are done once: the guest starts
``python -m toolkit.machine.vm.forks MODULE...``, which imports the modules and then forks for each program. Names
of programs arrive on one pipe, their exit codes leave on another.
"""

import gc
import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from toolkit.machine.labels import BLANK, PROCESS_VARIABLE
from toolkit.machine.vm import guest

_NAME_BYTES = 100


def main(modules: list[str]) -> None:
    """Import the modules, then fork for each program; the forks return from here and exit as any program does."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # collections in forks leave these objects alone
    Path(guest.FORKS_PID).write_text(str(os.getpid()))
    while name := os.read(guest.REQUESTS, _NAME_BYTES):
        directory = Path(guest.FILES) / name.decode().strip()
        pid = os.fork()
        if not pid:
            _run(json.loads((directory / guest.MODULE).read_text()))
            return
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(guest.ANSWERS, b"%d\n" % (code if code >= 0 else 128 - code))


def _run(program: dict[str, Any]) -> None:
    """Run a program's module as ``__main__``, in this process."""
    os.setsid()
    for number, name in enumerate((os.devnull, guest.STDOUT, guest.STDERR)):
        opened = os.open(name, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.close(guest.REQUESTS)
    os.close(guest.ANSWERS)
    try:
        os.chdir(program["directory"])
    except OSError as error:
        print(f"{program['directory']}: {error.strerror}", file=sys.stderr)
        sys.exit(guest.NO_DIRECTORY)
    os.environ.clear()
    os.environ.update({**program["environment"], PROCESS_VARIABLE: BLANK})
    sys.argv = [program["module"], *program["args"]]
    runpy.run_module(program["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
