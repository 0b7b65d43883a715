"""The CRUSH map: devices in a tree of buckets, rules, tunables (docs/protocol.md §6.8)."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter
from typing import Self, TypeVar

from messenger.denc.codec import Buffer, Decoder, Encoder
from messenger.errors import DecodeError

T = TypeVar("T")

ITEM_NONE = 0x7FFFFFFF
"""Stands for no item."""

_MAGIC = 0x00010000
_RULE_HEAD_SIZE = 4
_STEP_SIZE = 12


class Alg(IntEnum):
    """How a bucket selects among its items."""

    UNIFORM = 1
    LIST = 2
    TREE = 3
    STRAW = 4
    STRAW2 = 5


class RuleOp(IntEnum):
    """Operation of a rule's step."""

    NOOP = 0
    TAKE = 1
    CHOOSE_FIRSTN = 2
    CHOOSE_INDEP = 3
    EMIT = 4
    CHOOSELEAF_FIRSTN = 6
    CHOOSELEAF_INDEP = 7
    SET_CHOOSE_TRIES = 8
    SET_CHOOSELEAF_TRIES = 9
    SET_CHOOSE_LOCAL_TRIES = 10
    SET_CHOOSE_LOCAL_FALLBACK_TRIES = 11
    SET_CHOOSELEAF_VARY_R = 12
    SET_CHOOSELEAF_STABLE = 13
    SET_MSR_DESCENTS = 14
    SET_MSR_COLLISION_TRIES = 15
    CHOOSE_MSR = 16


@dataclass(frozen=True, slots=True)
class Bucket:
    """An inner node. Weights are 16.16 fixed point."""

    id: int
    """Negative number, unlike devices."""
    type: int
    """Type number of host, rack and so on; 0 is a device."""
    alg: Alg
    hash: int
    """0: Jenkins's hash, the only one defined."""
    weight: int
    items: tuple[int, ...]
    weights: tuple[int, ...]
    """Weight of each item; a single one in uniform buckets, one per node in tree buckets."""
    extra: tuple[int, ...] = ()
    """Sums of weights in list buckets, straws in straw buckets."""

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding, algorithm first."""
        encoder.u32(self.alg)
        encoder.i32(self.id)
        encoder.u16(self.type)
        encoder.u8(self.alg)
        encoder.u8(self.hash)
        encoder.u32(self.weight)
        encoder.sequence(self.items, encoder.i32)
        if self.alg is Alg.TREE:
            encoder.u8(len(self.weights))
        if self.alg in (Alg.LIST, Alg.STRAW):
            words = [word for pair in zip(self.weights, self.extra, strict=True) for word in pair]
        else:
            words = list(self.weights)
        for word in words:
            encoder.u32(word)

    @classmethod
    def decode(cls, decoder: Decoder, slot: int) -> Self | None:
        """Read a slot; returns None if it is empty. Raises DecodeError."""
        number = decoder.u32()
        if not number:
            return None
        bucket_id, kind, own_number, hash_type = decoder.i32(), decoder.u16(), decoder.u8(), decoder.u8()
        weight, items = decoder.u32(), tuple(decoder.sequence(decoder.i32, 4))
        if bucket_id != -1 - slot or own_number != number or number not in list(Alg):
            raise DecodeError(f"slot {slot} of the CRUSH map holds bucket {bucket_id} of algorithm {number}")
        alg, size = Alg(number), len(items)
        extra: tuple[int, ...] = ()
        if alg is Alg.UNIFORM:
            weights = _words(decoder, 1)
        elif alg is Alg.TREE:
            weights = _words(decoder, decoder.u8())
            if len(weights) < 2 * size:
                raise DecodeError(f"tree bucket {bucket_id} of {size} items has {len(weights)} nodes")
        elif alg is Alg.STRAW2:
            weights = _words(decoder, size)
        else:
            words = _words(decoder, 2 * size)
            weights, extra = words[::2], words[1::2]
        return cls(bucket_id, kind, alg, hash_type, weight, items, weights, extra)


def _words(decoder: Decoder, count: int) -> tuple[int, ...]:
    return tuple(decoder.u32() for _ in range(count))


@dataclass(frozen=True, slots=True)
class CrushStep:
    """One step of a rule."""

    op: int
    """A :class:`RuleOp`."""
    arg1: int = 0
    arg2: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """A placement rule."""

    ruleset: int
    type: int
    """1 replicated, 3 erasure-coded, 4 and 5 multi-step."""
    min_size: int
    max_size: int
    steps: tuple[CrushStep, ...]

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding, length first."""
        encoder.u32(len(self.steps))
        for value in (self.ruleset, self.type, self.min_size, self.max_size):
            encoder.u8(value)
        for step in self.steps:
            encoder.u32(step.op)
            encoder.i32(step.arg1)
            encoder.i32(step.arg2)

    @classmethod
    def decode(cls, decoder: Decoder) -> Self | None:
        """Read a slot; returns None if it is empty. Raises DecodeError."""
        if not decoder.u32():
            return None
        count = decoder.u32()
        head = decoder.u8(), decoder.u8(), decoder.u8(), decoder.u8()
        if count * _STEP_SIZE > decoder.remaining:
            raise DecodeError(f"{count} steps of a rule need {count * _STEP_SIZE} bytes, {decoder.remaining} left")
        steps = (CrushStep(decoder.u32(), decoder.i32(), decoder.i32()) for _ in range(count))
        return cls(*head, tuple(steps))


@dataclass(slots=True)
class Tunables:
    """Tunables of the algorithm. The defaults apply to old maps, which lack them."""

    choose_local_tries: int = 2
    choose_local_fallback_tries: int = 5
    choose_total_tries: int = 19
    chooseleaf_descend_once: int = 0
    chooseleaf_vary_r: int = 0
    straw_calc_version: int = 0
    allowed_bucket_algs: int = 1 << Alg.UNIFORM | 1 << Alg.LIST | 1 << Alg.STRAW
    chooseleaf_stable: int = 0


_TUNABLE_GROUPS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("choose_local_tries", "u32"), ("choose_local_fallback_tries", "u32"), ("choose_total_tries", "u32")),
    (("chooseleaf_descend_once", "u32"),),
    (("chooseleaf_vary_r", "u8"),),
    (("straw_calc_version", "u8"),),
    (("allowed_bucket_algs", "u32"),),
    (("chooseleaf_stable", "u8"),),
)
"""Groups of tunables in the order of their introduction; a map may end before any of them."""


@dataclass(frozen=True, slots=True)
class ChooseArg:
    """Alternative weights and ids for the items of one bucket."""

    weight_set: tuple[tuple[int, ...], ...] = ()
    """Weights by position of the replica; the last set applies to all further positions."""
    ids: tuple[int, ...] = ()


@dataclass(slots=True)
class CrushMap:
    """A CRUSH map."""

    max_devices: int = 0
    buckets: dict[int, Bucket] = field(default_factory=dict)
    """By id."""
    max_buckets: int = 0
    rules: dict[int, Rule] = field(default_factory=dict)
    max_rules: int = 0
    type_names: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """Names of devices and buckets."""
    rule_names: dict[int, str] = field(default_factory=dict)
    tunables: Tunables = field(default_factory=Tunables)
    class_map: dict[int, int] = field(default_factory=dict)
    """Device class by device."""
    class_names: dict[int, str] = field(default_factory=dict)
    class_bucket: dict[int, dict[int, int]] = field(default_factory=dict)
    """For each bucket and class, the shadow bucket with the devices of that class only."""
    choose_args: dict[int, dict[int, ChooseArg]] = field(default_factory=dict)
    """Alternative weights by pool id (-1: all pools), then by bucket id."""
    msr_tunables: tuple[int, int] | None = None
    """Descents and collision tries of multi-step rules, since Squid."""

    def encode(self, encoder: Encoder) -> None:
        """Append the encoding, with every group of tunables."""
        encoder.u32(_MAGIC)
        encoder.i32(self.max_buckets)
        encoder.u32(self.max_rules)
        encoder.i32(self.max_devices)
        for slot in range(self.max_buckets):
            bucket = self.buckets.get(-1 - slot)
            encoder.u32(0) if bucket is None else bucket.encode(encoder)
        for slot in range(self.max_rules):
            rule = self.rules.get(slot)
            encoder.u32(rule is not None)
            if rule is not None:
                rule.encode(encoder)
        for names in (self.type_names, self.names, self.rule_names):
            encoder.mapping(names, encoder.i32, encoder.string)
        for group in _TUNABLE_GROUPS:
            for name, kind in group:
                getattr(encoder, kind)(getattr(self.tunables, name))
        encoder.mapping(self.class_map, encoder.i32, encoder.i32)
        encoder.mapping(self.class_names, encoder.i32, encoder.string)
        encoder.mapping(
            self.class_bucket, encoder.i32, lambda shadows: encoder.mapping(shadows, encoder.i32, encoder.i32)
        )
        encoder.mapping(self.choose_args, encoder.i64, lambda args: _encode_choose_args(encoder, args))
        for value in self.msr_tunables or ():
            encoder.u32(value)

    @classmethod
    def decode(cls, data: Buffer) -> Self:
        """Read a map.

        Raises:
            DecodeError: cut short, malformed, or no CRUSH map at all.
        """
        decoder = Decoder(data)
        magic = decoder.u32()
        if magic != _MAGIC:
            raise DecodeError(f"a CRUSH map begins with 0x{_MAGIC:08x}, not 0x{magic:08x}")
        crush = cls(max_buckets=decoder.i32(), max_rules=decoder.u32(), max_devices=decoder.i32())
        if not 0 <= (crush.max_buckets + crush.max_rules) * 4 <= decoder.remaining or crush.max_buckets < 0:
            raise DecodeError(f"no room for {crush.max_buckets} buckets and {crush.max_rules} rules")
        crush.buckets = _slots(
            crush.max_buckets, lambda slot: Bucket.decode(decoder, slot), lambda slot: -1 - slot
        )
        _refuse_cycles(crush.buckets)
        crush.rules = _slots(crush.max_rules, lambda _slot: Rule.decode(decoder), lambda slot: slot)
        crush.type_names, crush.names, crush.rule_names = (
            decoder.mapping(decoder.i32, decoder.string, 8) for _ in range(3)
        )
        for group in _TUNABLE_GROUPS:
            if not decoder.remaining:
                return crush
            for name, kind in group:
                setattr(crush.tunables, name, getattr(decoder, kind)())
        crush._decode_classes(decoder)
        return crush

    def _decode_classes(self, decoder: Decoder) -> None:
        """Read device classes and choose_args, since Luminous, and the tunables of MSR rules, since Squid."""
        if decoder.remaining:
            self.class_map = decoder.mapping(decoder.i32, decoder.i32, 8)
            self.class_names = decoder.mapping(decoder.i32, decoder.string, 8)
            self.class_bucket = decoder.mapping(
                decoder.i32, lambda: decoder.mapping(decoder.i32, decoder.i32, 8), 8
            )
        if decoder.remaining:
            self.choose_args = decoder.mapping(decoder.i64, lambda: _decode_choose_args(decoder), 12)
        if decoder.remaining:
            self.msr_tunables = decoder.u32(), decoder.u32()


def _slots(count: int, decode: Callable[[int], T | None], key: Callable[[int], int]) -> dict[int, T]:
    found = {key(slot): decode(slot) for slot in range(count)}
    return {number: value for number, value in found.items() if value is not None}


def _refuse_cycles(buckets: dict[int, Bucket]) -> None:
    """Raise DecodeError for a map with cycles, in which a descent would not end."""
    inner = {number: [item for item in bucket.items if item in buckets] for number, bucket in buckets.items()}
    try:
        TopologicalSorter(inner).prepare()
    except CycleError as error:
        raise DecodeError(f"buckets of the CRUSH map contain each other: {error.args[1]}") from None


def _encode_choose_args(encoder: Encoder, args: dict[int, ChooseArg]) -> None:
    encoder.u32(len(args))
    for bucket_id, arg in args.items():
        encoder.u32(-1 - bucket_id)
        encoder.sequence(arg.weight_set, lambda weights: encoder.sequence(weights, encoder.u32))
        encoder.sequence(arg.ids, encoder.i32)


def _decode_choose_args(decoder: Decoder) -> dict[int, ChooseArg]:
    def arg() -> ChooseArg:
        weight_set = decoder.sequence(lambda: tuple(decoder.sequence(decoder.u32, 4)), 4)
        return ChooseArg(tuple(weight_set), tuple(decoder.sequence(decoder.i32, 4)))

    return decoder.mapping(lambda: -1 - decoder.u32(), arg, 12)


assert {name for group in _TUNABLE_GROUPS for name, _ in group} == {knob.name for knob in fields(Tunables)}
