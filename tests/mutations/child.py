"""One process with one mutant, or with none: ``python -m tests.mutations.child``.

Reads a job as JSON: the mutant, the suite, and its parts. Writes a line of JSON for each part that it begins and
for each that notices the mutant. Without parts it surveys the suite: what there is, and which lines it runs.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.mutations.mutant import ROOT, Mutant, install

_MESSENGER = str(ROOT / "messenger")


def main() -> None:
    """Do the job, with everything else that is printed on stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    if job["mutant"] is not None:
        install(Mutant(**job["mutant"]))
    suite = import_module(f"tests.mutations.suites.{job['suite']}")
    lines = _survey(suite) if job["parts"] is None else _play(suite, job)
    for line in lines:
        print(json.dumps(line), file=out)
    print(json.dumps({"done": True}), file=out)
    out.flush()
    os._exit(0)  # whatever threads the mutant has left behind


def _play(suite: Any, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part, what in suite.play(job["parts"], deep=job["deep"]):
        yield {"part": part, "what": what}


def _survey(suite: Any) -> Iterator[dict[str, Any]]:
    """Every part with its digest, its time, what it notices without a mutant, and the lines that it runs."""
    from coverage import Coverage

    measured = Coverage(data_file=None, source=[_MESSENGER], config_file=False)
    measured.start()
    rows = []
    for part, digest in suite.parts().items():
        measured.switch_context(part)
        began_s = time.process_time()
        wrong = [what for _, what in suite.play([part], deep=False) if what]
        taken_s = round(time.process_time() - began_s, 2)
        rows.append({"part": part, "digest": digest, "seconds": taken_s, "wrong": wrong})
    measured.stop()
    data = measured.get_data()
    for row in rows:
        data.set_query_context(row["part"])
        lines = {_module(path): sorted(data.lines(path) or ()) for path in data.measured_files()}
        yield row | {"lines": {module: numbers for module, numbers in lines.items() if numbers}}


def _module(path: str) -> str:
    return path.removeprefix(_MESSENGER).strip("/").removesuffix(".py").replace("/", ".")


if __name__ == "__main__":
    main()
