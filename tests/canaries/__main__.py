"""``python -m tests.canaries [WORDS]``: run the suites on the canaries with WORDS in their names."""

import sys
from multiprocessing import Pool
from statistics import median

from tests.canaries.bugs import MOST_SEEDS
from tests.canaries.canary import Canary
from tests.canaries.hunt import Catch, hunt, named


def _hunt(canary: Canary) -> tuple[str, Catch | None]:
    return canary.name, hunt(canary)


def main(words: str = "") -> int:
    """Hunt them in parallel; 1 if one was not found."""
    seeds = []
    missed = 0
    with Pool(maxtasksperchild=1) as pool:
        for name, catch in pool.imap(_hunt, named(words)):
            print(f"{name}\n    {catch or f'NOT FOUND within {MOST_SEEDS} seeds'}", flush=True)
            if catch is None:
                missed += 1
            else:
                seeds.append(catch.seed)
    if seeds:
        print(f"{len(seeds)} found, {missed} not; the median took {median(seeds):g} seeds")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
