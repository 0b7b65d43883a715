"""Long histories that are made by a loop."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from toolkit.checks.records import Record
from toolkit.lab.sim.sim_lab import SimLab

OTHER = {"a": "b", "b": "a"}


def long_history(way: str, rounds: int, every_s: float = 0.1) -> list[Record]:
    """Two peers that exchange messages in so many equal rounds, one every ``every_s`` seconds."""
    lab = SimLab(way, 1)
    lab.two()
    for _ in range(3):
        lab.exchange(count=2)
    known = len(lab.history)
    lab.exchange(count=2)
    begun = [record for record in lab.history.records[:known] if record.kind != "step"]
    turn = [record for record in lab.history.records[known:] if record.kind != "step"]
    messages = Counter(record.node for record in turn if record.kind == "send")
    frames: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for record in turn:
        if record.kind == "frame":
            frames[record["link"], record["direction"]] += 1
            sizes[record["link"], record["direction"]] += record["length"]

    def later(record: Record, number: int) -> Record:
        fields = dict(record.fields)
        if record.kind in {"send", "deliver"}:
            sender = record.node if record.kind == "send" else OTHER[record.node]
            for name in {"tid", "seq"} & fields.keys():
                fields[name] += number * messages[sender]
        elif record.kind == "frame":
            way = record["link"], record["direction"]
            writer = record.node if record["direction"] == "tx" else OTHER[record.node]
            fields["index"] += number * frames[way]
            fields["offset"] += number * sizes[way]
            inner = fields["fields"] = dict(fields["fields"])
            numbers = {"seq": writer if record["tag"] != "ACK" else OTHER[writer], "tid": writer}
            for name, sender in {**numbers, "ack_seq": OTHER[writer]}.items():
                if name in inner:
                    inner[name] += number * messages[sender]
        return replace(record, time_s=round(record.time_s + number * every_s, 9), fields=fields)

    return begun + [later(record, number) for number in range(rounds) for record in turn]


def interrupted_history(way: str, cuts: int) -> list[Record]:
    """Two peers whose link breaks so many times; each time there are messages that wait for the next link."""
    lab = SimLab(way, 1)
    lab.two()
    lab.exchange(count=2)
    for _ in range(cuts):
        lab.cut("a", "b")
        lab.send("a", "b", 5)
        lab.exchange(count=3)
    return [record for record in lab.history if record.kind != "end"]


def chaotic_history(way: str, rounds: int, seed: int = 1) -> list[Record]:
    """Two peers that exchange messages in so many rounds, each after a fault that is drawn."""
    lab, draw = SimLab(way, seed), Random(seed)
    lab.two()
    lab.exchange(count=2)
    for _ in range(rounds):
        _FAULTS[draw.choice(sorted(_FAULTS))](lab)
        lab.exchange(count=2)
        lab.wait(draw.choice((0.5, 3.0)))
    return [record for record in lab.history if record.kind != "end"]


def _killed(lab: SimLab) -> None:
    lab.kill("b")
    lab.send("a", "b", 2)
    lab.wait(5.0)
    lab.revive("b")


def _refused(lab: SimLab) -> None:
    lab.refuse("a", "b")
    lab.refuse("b", "a")
    lab.cut("a", "b")
    lab.send("b", "a", 3)
    lab.wait(40.0)
    lab.heal()


def _frozen(lab: SimLab) -> None:
    lab.freeze("b")
    lab.send("a", "b", 2)
    lab.wait(2.0)
    lab.thaw("b")


def _cut_with_messages(lab: SimLab) -> None:
    lab.cut("a", "b")
    lab.send("a", "b", 3)


def _reset(lab: SimLab) -> None:
    lab.mark_down("a", "b")
    lab.connect("a", "b")


_FAULTS: dict[str, Callable[[SimLab], None]] = {
    "cut": lambda lab: lab.cut("a", "b"),
    "cut with messages": _cut_with_messages,
    "frozen": _frozen,
    "killed": _killed,
    "refused": _refused,
    "reset": _reset,
}
