"""One process of coverage-guided fuzzing: atheris on one target. Started by ``python -m tests.fuzz``."""

import resource
import sys

import atheris

_ADDRESS_SPACE_BYTES = 2 << 30
"""More than this cannot be allocated: a target that tries gets a MemoryError, which is a finding."""


def main(name: str, *options: str) -> None:
    """Fuzz until a limit of libFuzzer ends the process."""
    with atheris.instrument_imports(include=["messenger", "toolkit"]):
        from tests.fuzz.registry import all_targets

        target = all_targets()[name]
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
