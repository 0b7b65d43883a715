"""Our messenger as a program for ``msgrlab bench --against``, to compare another Python or another checkout.

    #!/bin/sh
    PYTHONPATH=/path/of/the/other/checkout exec /path/of/its/python -P -m toolkit.bench.anchor.own "$@"

It takes the options and prints the lines that docs/speed.md describes.
"""

import argparse
import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from messenger.errors import LocalError
from messenger.link import Protocol
from toolkit.bench.cell import MODES, Cell, Pattern
from toolkit.bench.measure import Pair, Peer


def main(words: list[str] | None = None) -> None:
    """Run the program until the input ends; print an error as one line on standard error."""
    parser = argparse.ArgumentParser(prog="own", allow_abbrev=False)
    parser.add_argument("--proto", type=Protocol, required=True)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--pattern", type=Pattern, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--cpus", type=_cpus, required=True)
    parser.add_argument("--control", choices=["yes"], required=True)
    options = parser.parse_args(words)
    os.sched_setaffinity(0, options.cpus)
    cell = Cell(
        protocol=options.proto,
        mode=options.mode,
        pattern=options.pattern,
        size=options.size,
        in_flight=options.in_flight,
        cores=len(options.cpus),
    )
    try:
        asyncio.run(_answer(cell))
    except LocalError as error:
        sys.exit(f"own: {error}")


def _cpus(text: str) -> set[int]:
    return {int(number) for number in text.split(",")}


async def _answer(cell: Cell) -> None:
    async with AsyncExitStack() as stack:
        pair = await Pair.start(cell, *[await stack.enter_async_context(Peer()) for _ in range(2)], floor=False)
        while line := await asyncio.to_thread(sys.stdin.readline):
            count = int(line)
            turn = await pair.run(count)
            answer = {"count": count, "elapsed_s": turn.elapsed_s, "cpu_us_per_op": turn.cpu_s / count * 1e6}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
