"""LG: large messages, and segments of unusual sizes."""

from itertools import product

from toolkit.lab.lab import Lab
from toolkit.lab.verbs.policies import PAIRS
from toolkit.lab.ways import ways
from toolkit.scenarios.large_messages import LG

_EDGES = (0, 1, 15, 16, 17, 47, 48, 49, 4095, 4096, 4097, 65536)
"""Lengths around the inlined part of secure frames, the cipher's blocks and pages."""
_ROUGH_EDGES = (0, 1, 48, 49, 4096)
_MIB = 1 << 20


@LG.scenario("LG-01", "zero_everything")
def zero_everything(lab: Lab) -> None:
    """Messages without bytes are delivered.

    All three segments are empty. Each message is numbered, acknowledged and delivered like any other, before and
    after a cut.
    """
    lab.two()
    lab.connect("a", "b")
    lab.exchange(count=20, size_bytes=0)
    lab.send("a", "b", 5, 0)
    lab.cut("a", "b")
    lab.send("a", "b", 5, 0)
    lab.expect_delivered("a", "b", 30)
    lab.settle()
    sizes = {record["size"] for record in lab.history.of("deliver")}
    lab.require(sizes == {0}, f"messages of {sizes} bytes were delivered")


def _around(edge: int) -> list[tuple[int, int, int]]:
    """Lengths of front, middle and data with the edge at each place, beside other edges."""
    others = list(product(_ROUGH_EDGES, repeat=2))
    return [
        *((edge, second, third) for second, third in others),
        *((first, edge, third) for first, third in others),
        *((first, second, edge) for first, second in others),
    ]


@LG.scenario("LG-02", "segment_size_matrix", cases={f"{edge} bytes": {"edge": edge} for edge in _EDGES})
def segment_size_matrix(lab: Lab, edge: int) -> None:
    """Segments of all edge lengths arrive unchanged.

    Front, middle and data are empty, as long as a block, a page or the inlined part of a frame, and one byte more
    or less, in all orders. All messages are sent in one burst, so that frames of different shapes share reads and
    writes.
    """
    lab.two()
    lab.connect("a", "b")
    shapes = _around(edge)
    for front, middle, data in shapes:
        lab.send("a", "b", 1, data, front_bytes=front, middle_bytes=middle)
    lab.expect_delivered("a", "b", len(shapes))
    lab.settle()
    sizes = [record["size"] for record in lab.history.node("b").of("deliver")]
    lab.require(sizes == [sum(shape) for shape in shapes], "messages changed their sizes")


@LG.scenario(
    "LG-03",
    "many_small_and_few_large",
    cases={
        "3000 x 26 B": {"count": 3000, "size_bytes": 26},
        "10 x 800 KB": {"count": 10, "size_bytes": 800_000},
        "3 x 4 MiB": {"count": 3, "size_bytes": 4 * _MIB},
        "30720 x 26 B": {"count": 30_720, "size_bytes": 26},
        "64 MiB": {"count": 1, "size_bytes": 64 * _MIB},
    },
    quick=False,
)
def many_small_and_few_large(lab: Lab, count: int, size_bytes: int) -> None:
    """A flood of small messages and a few large ones arrive whole.

    Thousands of messages of which many fit into one read, or a few that take many reads each; the link is cut in
    the middle of them.
    """
    lab.two()
    lab.connect("a", "b")
    lab.send("a", "b", count, size_bytes)
    lab.wait(0.002)
    lab.cut("a", "b")
    lab.expect_delivered("a", "b", count, within_s=60.0)
    lab.settle(within_s=60.0)


@LG.scenario("LG-07", "interleaved_big_small", priority=2, ways=ways("v2-crc", "v2-secure", "v2-crc-w2", "v1"))
def interleaved_big_small(lab: Lab) -> None:
    """A message of high priority overtakes large ones that wait, but none being written.

    Many large messages are queued for a slow reader, then small ones of a higher priority. The small ones are
    written before every large one that has no seq yet, in the order in which they were sent.
    """
    large, count = 1 << 20 if lab.real_time else 256 << 10, 40  # kernels and a proxy take the first megabytes
    PAIRS["peers"].start(lab)
    lab.connect("a", "b")
    lab.slow("a", "b", 4e6)
    lab.send("a", "b", count, large)
    lab.wait(0.1)
    lab.send("a", "b", 3, 10, priority=200)
    if lab.real_time:
        lab.heal()
    lab.expect_delivered("a", "b", count + 3, within_s=60.0)
    lab.heal()
    arrived = [record["tid"] for record in lab.history.node("b").of("deliver")]
    urgent = [arrived.index(tid) for tid in range(count + 1, count + 4)]
    lab.require(urgent == list(range(urgent[0], urgent[0] + 3)), f"the urgent ones came at places {urgent}")
    lab.require(0 < urgent[0] < count - 1, f"the urgent ones came at place {urgent[0]} of {count + 3}")
    rest = [tid for tid in arrived if tid <= count]
    lab.require(rest == sorted(rest), "the large ones changed their order")
    lab.settle()
