"""Divides the links of a capture into parts, which are judged one after the other in bounded memory."""

from collections import defaultdict
from collections.abc import Iterator

from toolkit.dissect.analysis.analysis import Analysis
from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.direction import Direction


def divided(analysis: Analysis, most_frames: int) -> Iterator[list[int]]:
    """Yield the streams of each part. Links that are further hops are in none.

    A session is in one part. Sessions of the same two nodes come together, because rules compare them.

    Args:
        analysis: the analysis of the capture.
        most_frames: most frames of a part, unless one session has more: it then is a part alone.
    """
    sessions: dict[object, list[LinkView]] = defaultdict(list)
    for link in analysis.links:
        if link.hop_of is None:
            sessions[link.parties or link].append(link)
    pairs: dict[frozenset[str], list[list[LinkView]]] = defaultdict(list)
    for links in sessions.values():
        pairs[frozenset(map(links[0].name, Direction))].append(links)
    part: list[int] = []
    frames = 0
    for links in (links for pair in pairs.values() for links in pair):
        count = sum(link.frames for link in links)
        if part and frames + count > most_frames:
            yield part
            part, frames = [], 0
        part += [link.stream.index for link in links]
        frames += count
    if part:
        yield part
