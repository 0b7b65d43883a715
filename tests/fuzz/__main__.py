"""``python -m tests.fuzz``: fuzz targets, let their corpus grow, and replay what was found.

Without names all targets are fuzzed in turn. A run begins with the corpus and freshly made seeds, and ends by
leaving in the corpus the inputs that are worth keeping. Inputs that break a promise are kept in
``msgrlab-out``.
"""

import argparse
import subprocess
import sys
import tempfile
import tracemalloc
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import corpus, findings
from tests.fuzz.minimise import minimised
from tests.fuzz.registry import all_targets
from tests.fuzz.target import Target, run_checked

_UNUSABLE, _UNSUPPORTED = 2, 3
_SLOWEST_INPUT_S = 10
_MOST_MEMORY_MIB = 1024


def main() -> int:
    """0, or 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TARGET", help="which; all unless given")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input and let its error be seen")
    parser.add_argument("--list", action="store_true", help="name the targets")
    options = parser.parse_args()
    known = all_targets()
    if unknown := [name for name in options.names if name not in known]:
        print(f"no target {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return _UNUSABLE
    if options.list:
        print(*known, sep="\n")
        return 0
    targets = [known[name] for name in options.names or known]
    if options.replay is not None:
        return _replay(targets, options.replay)
    if options.seconds and find_spec("atheris") is None:
        print("atheris is not installed; make fuzz adds it", file=sys.stderr)
        return _UNSUPPORTED
    found = [_fuzz(target, options.seconds, options.jobs) for target in targets]
    return int(any(found))


def _replay(targets: list[Target], path: Path) -> int:
    tracemalloc.start()
    for target in targets:
        run_checked(target, path.read_bytes())
    return 0


def _fuzz(target: Target, seconds: int, jobs: int) -> int:
    """Fuzz one target; returns how many findings there are."""
    folder_of_findings = findings.FOLDER / target.name
    folder_of_findings.mkdir(parents=True, exist_ok=True)
    before = set(folder_of_findings.iterdir())
    with tempfile.TemporaryDirectory() as folder:
        for data in corpus.inputs(target):
            (Path(folder) / sha256(data).hexdigest()).write_bytes(data)
        if seconds:
            _run_engines(target, folder, folder_of_findings, seconds, jobs)
        inputs = [path.read_bytes() for path in Path(folder).iterdir()]
    new = sorted(set(folder_of_findings.iterdir()) - before)
    for path in new:
        print(f"{target.name}: {path}; again: {findings.replay_command(target.name, path)}")
    if not new:
        corpus.save(target.name, minimised(target, inputs))
        kept = corpus.load(target.name)
        print(f"{target.name}: {len(inputs)} inputs, {len(kept)} kept, {sum(map(len, kept))} bytes")
    return len(new)


def _run_engines(target: Target, folder: str, artefacts: Path, seconds: int, jobs: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.engine",
        target.name,
        folder,
        f"-max_total_time={seconds}",
        f"-max_len={target.max_bytes}",
        f"-timeout={_SLOWEST_INPUT_S}",
        f"-rss_limit_mb={_MOST_MEMORY_MIB}",
        f"-artifact_prefix={artefacts}/",
        "-print_final_stats=1",
    ]
    with (artefacts.parent / f"{target.name}.log").open("w") as log:
        engines = [subprocess.Popen(command, stdout=log, stderr=log) for _ in range(jobs)]
        for engine in engines:
            engine.wait()


if __name__ == "__main__":
    sys.exit(main())
