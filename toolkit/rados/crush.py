"""CRUSH: select devices for a number by a rule and weights, identically everywhere (docs/protocol.md §6.8)."""

from collections.abc import Sequence
from dataclasses import dataclass

from messenger.errors import LocalError
from toolkit.rados.crush_ln import crush_ln
from toolkit.rados.crush_map import ITEM_NONE, Alg, Bucket, ChooseArg, CrushMap, CrushStep, Rule, RuleOp
from toolkit.rados.hashes import crush_hash32_2, crush_hash32_3, crush_hash32_4

IN = 0x10000
"""Weight of a device that accepts everything it is selected for."""

_UNDEFINED = 0x7FFFFFFE
_LN_LIMIT = 1 << 48
_LEAF_TYPE = 0
_FIRSTN = (RuleOp.CHOOSE_FIRSTN, RuleOp.CHOOSELEAF_FIRSTN)
_INDEP = (RuleOp.CHOOSE_INDEP, RuleOp.CHOOSELEAF_INDEP)
_TO_LEAF = (RuleOp.CHOOSELEAF_FIRSTN, RuleOp.CHOOSELEAF_INDEP)
_SETTINGS = {
    RuleOp.SET_CHOOSE_TRIES: ("choose_tries", 1),
    RuleOp.SET_CHOOSELEAF_TRIES: ("chooseleaf_tries", 1),
    RuleOp.SET_CHOOSE_LOCAL_TRIES: ("local_tries", 0),
    RuleOp.SET_CHOOSE_LOCAL_FALLBACK_TRIES: ("local_fallback_tries", 0),
    RuleOp.SET_CHOOSELEAF_VARY_R: ("vary_r", 0),
    RuleOp.SET_CHOOSELEAF_STABLE: ("stable", 0),
}
"""Tunable of each SET step, and its least valid value."""
_MSR_TYPES = (4, 5)


@dataclass(slots=True)
class _Knobs:
    """Tunables of one run, which SET steps of the rule may change."""

    choose_tries: int
    chooseleaf_tries: int
    local_tries: int
    local_fallback_tries: int
    vary_r: int
    stable: int


def do_rule(
    crush: CrushMap, rule_id: int, x: int, count: int, weights: Sequence[int], choose_args_id: int | None = None
) -> list[int]:
    """Return the devices that a rule selects for ``x``.

    Args:
        crush: the map.
        rule_id: id of the rule; an unknown rule selects nothing.
        x: the number to place.
        count: most devices.
        weights: reweight of each device, 16.16 fixed point.
        choose_args_id: id of the choose_args to use, that of the pool; falls back to -1.

    Returns:
        Devices; ``ITEM_NONE`` at positions that an indep rule could not fill.

    Raises:
        LocalError: a multi-step (MSR) rule, which is not supported.
    """
    rule = crush.rules.get(rule_id)
    if rule is None:
        return []
    return _Run(crush, x, count, weights, _choose_args(crush, choose_args_id)).do(rule)


def _choose_args(crush: CrushMap, args_id: int | None) -> dict[int, ChooseArg]:
    if args_id is None:
        return {}
    return crush.choose_args.get(args_id) or crush.choose_args.get(-1) or {}


class _Run:
    """One run of a rule for one number."""

    def __init__(
        self, crush: CrushMap, x: int, count: int, weights: Sequence[int], choose_args: dict[int, ChooseArg]
    ) -> None:
        self._crush = crush
        self._buckets = crush.buckets
        self._x = x
        self._count = count
        self._weights = weights
        self._choose_args = choose_args
        tunables = crush.tunables
        self._knobs = _Knobs(
            # the tunable counts retries, the algorithm tries
            tunables.choose_total_tries + 1,
            0,
            tunables.choose_local_tries,
            tunables.choose_local_fallback_tries,
            tunables.chooseleaf_vary_r,
            tunables.chooseleaf_stable,
        )

    def do(self, rule: Rule) -> list[int]:
        if rule.type in _MSR_TYPES:
            raise LocalError(
                f"rule of type {rule.type} chooses in multiple steps (MSR); types 1 and 3 are supported"
            )
        result: list[int] = []
        working: list[int] = []
        for step in rule.steps:
            if step.op == RuleOp.TAKE:
                if step.arg1 in self._buckets or 0 <= step.arg1 < self._crush.max_devices:
                    working = [step.arg1]
            elif step.op in _FIRSTN or step.op in _INDEP:
                working = self._choose(step, working)
            elif step.op == RuleOp.EMIT:
                result += working
                working = []
            elif (setting := _SETTINGS.get(step.op)) is not None:  # type: ignore[call-overload]  # any number
                name, least = setting
                if step.arg1 >= least:
                    setattr(self._knobs, name, step.arg1)
        return result[: self._count]

    def _choose(self, step: CrushStep, working: list[int]) -> list[int]:
        """One CHOOSE step on each item of the working set, each with its own window."""
        wanted = step.arg1 if step.arg1 > 0 else step.arg1 + self._count
        chosen: list[int] = []
        for item in working:
            bucket = self._buckets.get(item)
            if bucket is None or wanted <= 0:
                continue
            room = self._count - len(chosen)
            to_leaf = step.op in _TO_LEAF
            if step.op in _FIRSTN:
                leaf_tries = self._knobs.chooseleaf_tries or (
                    1 if self._crush.tunables.chooseleaf_descend_once else self._knobs.choose_tries
                )
                out, leaves = [0] * room, [0] * room
                filled = self._firstn(
                    bucket, wanted, step.arg2, out, 0, room, leaves if to_leaf else None, leaf_tries
                )
                chosen += (leaves if to_leaf else out)[:filled]
            else:
                left = min(wanted, room)
                out, leaves = [_UNDEFINED] * left, [_UNDEFINED] * left
                self._indep(bucket, left, wanted, step.arg2, out, 0, leaves if to_leaf else None)
                chosen += leaves if to_leaf else out
        return chosen

    # ---- firstn: the first that will do, later ones move up when one fails

    def _firstn(
        self,
        bucket: Bucket,
        wanted: int,
        kind: int,
        out: list[int],
        position: int,
        room: int,
        leaves: list[int] | None,
        leaf_tries: int,
        tries: int | None = None,
        parent_r: int = 0,
    ) -> int:
        """Fill ``out`` from ``position`` on; returns the position after the last item."""
        tries = self._knobs.choose_tries if tries is None else tries
        for rep in range(0 if self._knobs.stable else position, wanted):
            if room <= 0:
                break
            item = self._firstn_item(bucket, rep, kind, out, position, room, leaves, leaf_tries, tries, parent_r)
            if item is not None:
                out[position] = item
                position += 1
                room -= 1
        return position

    def _firstn_item(
        self,
        start: Bucket,
        rep: int,
        kind: int,
        out: list[int],
        position: int,
        room: int,
        leaves: list[int] | None,
        leaf_tries: int,
        tries: int,
        parent_r: int,
    ) -> int | None:
        """Return an item for one replica; None if the tries are used up."""
        bucket, failed, failed_here = start, 0, 0
        while True:
            r = rep + parent_r + failed
            collides, item = False, ITEM_NONE
            if bucket.items:
                item = self._pick_locally(bucket, r, position, failed_here)
                deeper = self._descend(item, kind)
                if deeper is None:
                    return None
                if isinstance(deeper, Bucket):
                    bucket = deeper
                    continue
                collides = item in out[:position]
                if not collides and self._firstn_holds(item, r, position, room, leaves, leaf_tries):
                    return item
            failed += 1
            failed_here += 1
            knobs = self._knobs
            retry_here = (collides and failed_here <= knobs.local_tries) or (
                knobs.local_fallback_tries > 0 and failed_here <= len(bucket.items) + knobs.local_fallback_tries
            )
            if retry_here:
                continue
            if failed >= tries:
                return None
            bucket, failed_here = start, 0

    def _pick_locally(self, bucket: Bucket, r: int, position: int, failed_here: int) -> int:
        """Select an item; with old tunables, by permutation after many failures in this bucket."""
        fallback = self._knobs.local_fallback_tries
        if fallback > 0 and failed_here >= len(bucket.items) >> 1 and failed_here > fallback:
            return self._permuted(bucket, r)
        return self._pick(bucket, r, position)

    def _descend(self, item: int, kind: int) -> Bucket | bool | None:
        """Return the bucket to descend into, True if the item has the wanted type, None if it is invalid."""
        if item >= self._crush.max_devices:
            return None
        if item >= 0:
            return True if kind == _LEAF_TYPE else None
        bucket = self._buckets.get(item)
        if bucket is None:
            return None
        return True if bucket.type == kind else bucket

    def _firstn_holds(
        self, item: int, r: int, position: int, room: int, leaves: list[int] | None, leaf_tries: int
    ) -> bool:
        """True if the item is not out; with ``leaves``, if a device below it is not out."""
        if leaves is not None:
            if item >= 0:
                leaves[position] = item
            else:
                knobs = self._knobs
                parent_r = r >> knobs.vary_r - 1 if knobs.vary_r else 0
                wanted = 1 if knobs.stable else position + 1
                bucket = self._buckets[item]
                filled = self._firstn(
                    bucket, wanted, _LEAF_TYPE, leaves, position, room, None, 0, leaf_tries, parent_r
                )
                if filled <= position:
                    return False
        return item < 0 or not self._is_out(item)

    # ---- indep: every position is filled independently, and may stay empty

    def _indep(
        self,
        start: Bucket,
        left: int,
        wanted: int,
        kind: int,
        out: list[int],
        first: int,
        leaves: list[int] | None,
        tries: int | None = None,
        parent_r: int = 0,
    ) -> None:
        """Fill ``left`` positions of ``out`` from ``first`` on, with ``ITEM_NONE`` where no item is found."""
        tries = self._knobs.choose_tries if tries is None else tries
        places = range(first, first + left)
        for place in places:
            out[place] = _UNDEFINED
            if leaves is not None:
                leaves[place] = _UNDEFINED
        for failed in range(tries):
            undefined = [place for place in places if out[place] == _UNDEFINED]
            if not undefined:
                break
            for place in undefined:
                self._indep_item(start, place, places, wanted, kind, out, leaves, failed, parent_r)
        for place in places:
            if out[place] == _UNDEFINED:
                out[place] = ITEM_NONE
            if leaves is not None and leaves[place] == _UNDEFINED:
                leaves[place] = ITEM_NONE

    def _indep_item(
        self,
        bucket: Bucket,
        place: int,
        places: range,
        wanted: int,
        kind: int,
        out: list[int],
        leaves: list[int] | None,
        failed: int,
        parent_r: int,
    ) -> None:
        """Try once to fill one position."""
        while bucket.items:
            regular = bucket.alg is Alg.UNIFORM and len(bucket.items) % wanted == 0
            r = place + parent_r + (wanted + 1 if regular else wanted) * failed
            item = self._pick(bucket, r, places.start)
            deeper = self._descend(item, kind)
            if deeper is None:
                out[place] = ITEM_NONE
                if leaves is not None:
                    leaves[place] = ITEM_NONE
                return
            if isinstance(deeper, Bucket):
                bucket = deeper
                continue
            if item in out[places.start : places.stop]:
                return
            if leaves is not None and item < 0:
                leaf_tries = self._knobs.chooseleaf_tries or 1
                self._indep(self._buckets[item], 1, wanted, _LEAF_TYPE, leaves, place, None, leaf_tries, r)
                if leaves[place] == ITEM_NONE:
                    return
            elif leaves is not None:
                leaves[place] = item
            if item < 0 or not self._is_out(item):
                out[place] = item
            return

    # ---- one bucket

    def _is_out(self, item: int) -> bool:
        """True if a device rejects ``x``: always at weight 0, with a probability below weight 1."""
        if item >= len(self._weights):
            return True
        weight = self._weights[item]
        return weight < IN and (not weight or crush_hash32_2(self._x, item) & 0xFFFF >= weight)

    def _pick(self, bucket: Bucket, r: int, position: int) -> int:
        if bucket.alg is Alg.STRAW2:
            return self._straw2(bucket, r, position)
        if bucket.alg is Alg.UNIFORM:
            return self._permuted(bucket, r)
        if bucket.alg is Alg.LIST:
            return self._from_list(bucket, r)
        return self._from_tree(bucket, r) if bucket.alg is Alg.TREE else self._straw(bucket, r)

    def _straw2(self, bucket: Bucket, r: int, position: int) -> int:
        """Draw from an exponential distribution for each item; the shortest time wins."""
        ids, weights = bucket.items, bucket.weights
        arg = self._choose_args.get(bucket.id)
        if arg is not None:
            ids = arg.ids or ids
            if arg.weight_set:
                weights = arg.weight_set[min(position, len(arg.weight_set) - 1)]
        x, best, winner = self._x, -1, 0
        for index, (item_id, weight) in enumerate(zip(ids, weights, strict=False)):
            if weight:
                draw = (_LN_LIMIT - crush_ln(crush_hash32_3(x, item_id, r) & 0xFFFF)) // weight
                if best < 0 or draw < best:
                    best, winner = draw, index
        return bucket.items[winner]

    def _straw(self, bucket: Bucket, r: int) -> int:
        """Scale a hash by each item's straw; the longest wins."""
        draws = [
            (crush_hash32_3(self._x, item, r) & 0xFFFF) * straw
            for item, straw in zip(bucket.items, bucket.extra, strict=True)
        ]
        return bucket.items[draws.index(max(draws))]

    def _permuted(self, bucket: Bucket, r: int) -> int:
        """Return the r-th item of a pseudorandom permutation."""
        items = list(bucket.items)
        place = r % len(items)
        for at in range(min(place + 1, len(items) - 1)):
            other = at + crush_hash32_3(self._x, bucket.id, at) % (len(items) - at)
            items[at], items[other] = items[other], items[at]
        return items[place]

    def _from_list(self, bucket: Bucket, r: int) -> int:
        """Compare each item, the newest first, with the sum of the weights before it."""
        for index in reversed(range(len(bucket.items))):
            draw = crush_hash32_4(self._x, bucket.items[index], r, bucket.id) & 0xFFFF
            if draw * bucket.extra[index] >> 16 < bucket.weights[index]:
                return bucket.items[index]
        return bucket.items[0]

    def _from_tree(self, bucket: Bucket, r: int) -> int:
        """Descend from the root to a leaf, left or right by weight; leaves are the odd nodes."""
        node = len(bucket.weights) >> 1
        while not node & 1:
            half = (node & -node) >> 1
            threshold = crush_hash32_4(self._x, node, r, bucket.id) * bucket.weights[node] >> 32
            node += -half if threshold < bucket.weights[node - half] else half
        return bucket.items[node >> 1]
