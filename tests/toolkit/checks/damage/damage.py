"""Kinds of damage to a recorded history: what each changes, and which invariant must notice it every time.

The history of a run without a violation is damaged at one place, as a messenger with a defect, or a recorder that
lies, would have left it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.checks.records import Record

Records = list[Record]
Change = Callable[[Records, int], None]
"""Damages the records in place, at the place of one of them."""
Where = Callable[[Sequence[Record], int], bool]
"""True if the record at that place can be damaged detectably."""

_PLACES = 3
"""So many places of one history are damaged, spread over the whole of it."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind."""

    name: str
    kind: str
    """Which records it begins at."""
    change: Change
    where: Where
    by: tuple[str, ...]
    """Invariants, at least one of which must notice it; empty if none can."""
    reason: str
    """Why nothing can notice it, or why only at some places."""

    def damaged(self, records: Sequence[Record]) -> Iterator[Records]:
        """The history with this damage, at each of some places where it can be done."""
        places = [
            place
            for place, record in enumerate(records)
            if record.kind == self.kind and self.where(records, place)
        ]
        step = max(1, len(places) // _PLACES)
        for place in places[::step][:_PLACES]:
            changed = list(records)
            self.change(changed, place)
            if changed != records:
                yield changed


DAMAGES: dict[str, Damage] = {}


def anywhere(_records: Sequence[Record], _place: int) -> bool:
    """Every record of the kind."""
    return True


def which(wanted: Callable[[Record], object]) -> Where:
    """Records that are so."""
    return lambda records, place: bool(wanted(records[place]))


def damage(
    name: str,
    kind: str,
    change: Change,
    *by: str,
    where: Where = anywhere,
    reason: str = "",
) -> None:
    """List a kind of damage; see :class:`Damage`."""
    assert name not in DAMAGES, name
    assert by or reason, name
    DAMAGES[name] = Damage(name, kind, change, where, by, reason)


# ---- what can be done to a record


def like(record: Record, **fields: Any) -> Record:
    """The record with other fields."""
    return Record(record.time_s, record.node, record.kind, {**record.fields, **fields})


def at(record: Record, time_s: float) -> Record:
    """The record at another time."""
    return Record(time_s, record.node, record.kind, record.fields)


def drop(records: Records, place: int) -> None:
    """It is missing."""
    del records[place]


def repeat(records: Records, place: int) -> None:
    """It is there twice."""
    records.insert(place, records[place])


def becomes(**fields: Any) -> Change:
    """Fields have other values; a function makes one from the record."""

    def change(records: Records, place: int) -> None:
        record = records[place]
        made = {name: value(record) if callable(value) else value for name, value in fields.items()}
        records[place] = like(record, **made)

    return change


def has_fields(**fields: Any) -> Change:
    """Fields of a frame have other values."""

    def change(records: Records, place: int) -> None:
        frame = records[place]
        made = {name: value(frame["fields"][name]) for name, value in fields.items() if name in frame["fields"]}
        records[place] = like(frame, fields={**frame["fields"], **made})

    return change


def more(name: str, by: int = 1) -> Change:
    """A number is larger, or with a negative one smaller."""
    return becomes(**{name: lambda record: record[name] + by})


def followed_by(kind: str, **fields: Any) -> Change:
    """Another record follows."""

    def change(records: Records, place: int) -> None:
        record = records[place]
        made = {name: value(record) if callable(value) else value for name, value in fields.items()}
        records.insert(place + 1, Record(record.time_s, record.node, kind, made))

    return change


def of(name: str) -> Callable[[Record], Any]:
    """A field of the record, for :func:`followed_by`."""
    return lambda record: record[name]


def move(records: Records, place: int, to: int) -> None:
    """It stands elsewhere, with the time that is there."""
    record = records.pop(place)
    neighbour = records[min(to, len(records) - 1)]
    records.insert(to, at(record, neighbour.time_s))


def change_places(records: Records, place: int, other: int) -> None:
    """Two records stand in each other's place, at each other's time."""
    one, two = records[place], records[other]
    records[place], records[other] = at(two, one.time_s), at(one, two.time_s)


def following(records: Sequence[Record], place: int, *same: str) -> int | None:
    """The place of the next record of that node and kind with the same fields; None if there is none."""
    record = records[place]
    for other in range(place + 1, len(records)):
        candidate = records[other]
        alike = candidate.node == record.node and candidate.kind == record.kind
        if alike and all(candidate.fields.get(name) == record.fields.get(name) for name in same):
            return other
    return None


def has_following(*same: str) -> Where:
    """True where a later record of the node and kind has the same fields."""
    return lambda records, place: following(records, place, *same) is not None


def both(*wheres: Where) -> Where:
    """True where all of these are."""
    return lambda records, place: all(where(records, place) for where in wheres)
