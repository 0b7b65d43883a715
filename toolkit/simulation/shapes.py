"""What a seed draws about its messages: three segments, large data, and messages of nodes to themselves.

A separate generator draws them, so that seeds that draw none of them keep their runs.
"""

from dataclasses import replace
from random import Random

from toolkit.simulation.draws import Options, Size, chance
from toolkit.simulation.schedule import Operation, Plan

_CHANCE = 0.4
_CHANCE_OF_SEGMENTS = 0.6
_CHANCE_OF_LOOPBACK = 0.4
_CHANCE_OF_LARGE = 0.25
_LARGE_BYTES = (70_000, 300_000)
"""Sizes of data that take more than one read, and that are not joined with other frames."""
_SEGMENT_BYTES = (0, 1, 20, 300, 2000)
"""Sizes of a front or middle segment: none, below and above a block of AES, and more than a small frame."""


def draw_shapes(rng: Random, options: Options, plan: Plan) -> tuple[Options, Plan]:
    """Draw the segments of a seed's messages, and messages of nodes to themselves."""
    if options.size is not Size.SMALL or not chance(rng, _CHANCE):
        return options, plan
    shaped = [_with_segments(rng, operation) if operation.verb == "send" else operation for operation in plan]
    if chance(rng, _CHANCE_OF_LARGE):
        shaped += [_large(rng, options, rng.choice(shaped).at_s)]
    if chance(rng, _CHANCE_OF_LOOPBACK):
        shaped += _loopback(rng, options, end_s=plan[-1].at_s if plan else 0.0)
    return options, tuple(sorted(shaped, key=lambda operation: operation.at_s))


def _with_segments(rng: Random, send: Operation) -> Operation:
    if not chance(rng, _CHANCE_OF_SEGMENTS):
        return send
    return replace(send, args=(*send.args, rng.choice(_SEGMENT_BYTES), rng.choice(_SEGMENT_BYTES)))


def _large(rng: Random, options: Options, at_s: float) -> Operation:
    return Operation(at_s, "send", (*rng.choice(options.pairs), rng.randrange(1, 3), rng.choice(_LARGE_BYTES)))


def _loopback(rng: Random, options: Options, end_s: float) -> list[Operation]:
    """One node sends to itself; only a node that listens has an address to dial."""
    name = rng.choice([node.name for node in options.nodes if node.listens])
    times_s = [rng.random() * end_s for _ in range(rng.randrange(1, 4))]
    return [Operation(round(at_s, 6), "send_to_itself", (name, rng.randrange(1, 4))) for at_s in times_s]
