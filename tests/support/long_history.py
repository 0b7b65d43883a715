"""Long histories that are made by a loop."""

from collections import Counter
from dataclasses import replace

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
