"""Processes that run a suite: ``python -m tests.mutations.child SUITE survey|serve|once [JOB]``.

``serve`` imports the suite and the messenger once. For each job, a line of JSON, it forks, and the fork runs the
suite with the mutant in the function that was imported. ``once`` runs a job for a mutant of code that runs as the
messenger is imported. Both write a line of JSON for each part that begins and for each that notices the mutant.
``survey`` reads the names of parts and writes a line for each: which mutants it reaches, which modules it uses,
how long it takes, and what it complains of.
"""

import json
import os
import pkgutil
import resource
import signal
import sys
import time
from importlib import import_module
from threading import Timer
from typing import Any, TextIO

from tests.mutations import probes
from tests.mutations.listing import applies, listed
from tests.mutations.mutant import Mutant, install, patch

CPU_LIMIT_S = 1800
"""Of a job; parts have limits of their own."""
_WALL_LIMIT_S = 3600
"""Of a job whose threads wait for each other and use no processor time."""


def main() -> None:
    """Carry out the command line; everything else that is printed goes to stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.set_inheritable(out.fileno(), True)
    os.dup2(2, 1)
    name, what = sys.argv[1:3]
    if what == "survey":
        _survey(name, json.load(sys.stdin), out)
    elif what == "serve":
        _serve(name, out)
    else:
        job = json.loads(sys.argv[3])
        if job["mutant"] is not None:
            install(Mutant(**job["mutant"]))
        out = os.fdopen(job["out"], "w", buffering=1)
        _play(import_module(f"tests.mutations.suites.{name}"), job, out)


def _import_all(name: str) -> Any:
    """The suite, once every module of the messenger is imported."""
    package = import_module("messenger")
    for found in pkgutil.walk_packages(package.__path__, "messenger."):
        if not found.name.endswith("__main__"):
            import_module(found.name)
    return import_module(f"tests.mutations.suites.{name}")


def _serve(name: str, out: TextIO) -> None:
    suite = _import_all(name)
    if hasattr(suite, "warm"):
        suite.warm()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _forked(name, suite, json.loads(line), out)
        limit = Timer(_WALL_LIMIT_S, os.kill, (pid, signal.SIGKILL))
        limit.start()
        _, status = os.waitpid(pid, 0)
        limit.cancel()
        limit.join()
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), file=out)


def _forked(name: str, suite: Any, job: dict[str, Any], out: TextIO) -> None:
    """Do a job and end."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 5))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    mutant = None if job["mutant"] is None else Mutant(**job["mutant"])
    if mutant is not None and (job["at_import"] or not patch(mutant)):
        request = json.dumps(job | {"out": out.fileno()})
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutations.child", name, "once", request])
    try:
        _play(suite, job, out)
    finally:
        os._exit(1)


class _Player:
    """Watches a mutant: goes on until enough parts have noticed it, or the budget of processor time is spent."""

    def __init__(self, job: dict[str, Any], out: TextIO) -> None:
        self._enough: int = job["enough"]
        self._began_s = time.process_time()
        self._limit_s = self._began_s + job["budget_s"]
        self._out = out
        self._killers: set[str] = set()

    def begin(self, part: str) -> bool:
        if len(self._killers) >= self._enough or time.process_time() > self._limit_s:
            return False
        self._write(part, "")
        return True

    def notice(self, part: str, what: str) -> None:
        self._killers.add(part.partition(" ")[0])
        self._write(part, what)

    def _write(self, part: str, what: str) -> None:
        used_s = round(time.process_time() - self._began_s, 3)
        print(json.dumps({"part": part, "what": what, "used_s": used_s}), file=self._out)


def _play(suite: Any, job: dict[str, Any], out: TextIO) -> None:
    """Run parts, and end."""
    suite.play(job["parts"], _Player(job, out))
    print(json.dumps({"done": True}), file=out)
    out.flush()
    os._exit(0)  # whatever threads the mutant has left behind


class _Surveyor:
    """Notes which mutants each part reaches."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._part, self._began_s = "", 0.0
        self._wrong: list[str] = []

    def begin(self, part: str) -> bool:
        self.end()
        self._part, self._began_s, self._wrong = part, time.process_time(), []
        return True

    def notice(self, part: str, what: str) -> None:
        self._wrong.append(f"{part}: {what}")

    def end(self) -> None:
        """Write what the part has reached."""
        mutants, modules = probes.taken()
        if self._part:
            row = {
                "part": self._part,
                "seconds": round(time.process_time() - self._began_s, 3),
                "wrong": self._wrong,
                "mutants": mutants,
                "modules": modules,
            }
            print(json.dumps(row), file=self._out)


def _survey(name: str, parts: list[str], out: TextIO) -> None:
    probes.install(mutant for mutant in listed() if applies(mutant) is None)
    suite = _import_all(name)
    print(json.dumps({"at_import": probes.taken()[0]}), file=out)
    surveyor = _Surveyor(out)
    suite.play(parts, surveyor)
    surveyor.end()
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
