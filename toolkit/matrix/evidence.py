"""Evidence from a capture about the links between the two sides of a cell."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.dissect.analysis.links import LinkView
from toolkit.dissect.analysis.sessions import SessionView
from toolkit.dissect.capture import Capture
from toolkit.dissect.frames import CAPTURE_ENDS, NO_FRAMES, DecodedFrame


class EvidenceMissing(Exception):
    """Evidence that a case requires is missing; the text names it for the report."""


def require(holds: object, text: str) -> None:
    """Raise EvidenceMissing with ``text`` unless ``holds`` is true; that fails the cell."""
    if not holds:
        raise EvidenceMissing(text)


@dataclass(frozen=True, slots=True)
class Expected:
    """The required properties of each link of a cell."""

    protocol: str
    """``v1`` or ``v2``."""
    mode: str
    """``crc`` or ``secure``."""
    compressed: str = ""
    """Host to which links must be compressed; empty if no link may be."""


class Wire:
    """A capture of one cell, decoded.

    Args:
        path: path of the capture.
        keyrings: keyrings of the cluster; missing or empty files are ignored.
        host: address of the connecting side.
        hosts: addresses of the other side; connections to other hosts are ignored.
    """

    def __init__(self, path: Path, keyrings: Sequence[Path], host: str, hosts: Collection[str]) -> None:
        self._capture = Capture(path, [each for each in keyrings if each.exists() and each.stat().st_size])
        self._dialler, self._dialled = host, hosts

    @property
    def links(self) -> list[LinkView]:
        """Links of the connecting side that became ready, in order."""
        return [link for link in self._ours if link.ready_ns is not None]

    @property
    def _ours(self) -> list[LinkView]:
        return [
            link
            for link in self._capture.analysis.links
            if _host(link.stream.client) == self._dialler and _host(link.stream.server) in self._dialled
        ]

    def to(self, host: str) -> list[LinkView]:
        """Return the links to one host."""
        return [link for link in self.links if _host(link.stream.server) == host]

    @property
    def sessions(self) -> list[SessionView]:
        """The sessions of these links."""
        links = set(self.links)
        return [session for session in self._capture.analysis.sessions if links.intersection(session.links)]

    @property
    def repeated_segments(self) -> int:
        """Number of retransmitted TCP segments."""
        return sum(sum(link.stream.tcp.repeats) for link in self._ours)

    def frames(self, *tags: str) -> list[DecodedFrame]:
        """Return the frames of these links that have one of the tags."""
        streams = {link.stream.index for link in self.links}
        return [frame for frame in self._capture.frames if frame.stream.index in streams and frame.tag in tags]

    def messages(self, *names: str) -> list[DecodedFrame]:
        """Return the frames that carry a message with one of these names."""
        found = self.frames("MESSAGE", "MSG")
        return [frame for frame in found if frame.message is not None and frame.message.name in names]

    def require_links(self, expected: Expected, hosts: Sequence[str]) -> str:
        """Require an open link to each host, the expected properties of each link, and that every frame decodes.

        Returns:
            One line that describes the links.

        Raises:
            EvidenceMissing: a link is missing or differs, or a frame cannot be decoded.
        """
        for host in hosts:
            require(self.to(host), f"the capture has no open link to {host}")
        for link in self.links:
            seen = f"{link.stream.client} to {link.stream.server} is {link.protocol} {link.mode}"
            require(link.protocol.startswith(expected.protocol) and link.mode == expected.mode, seen)
            is_to_be = bool(expected.compressed) and _host(link.stream.server) == expected.compressed
            require(bool(link.compression) == is_to_be, f"{seen}, compressed by {link.compression or 'nothing'}")
        bad = [frame for frame in self._capture.frames if self._is_unread(frame)]
        if bad:
            first = bad[0]
            raise EvidenceMissing(
                f"{len(bad)} frames cannot be read; first {first.tag}, {first.stream}: {first.error}"
            )
        protocols = {f"{link.protocol} {link.mode}" for link in self.links}
        packed = {f"compressed by {link.compression}" for link in self.links if link.compression}
        return f"{len(self.links)} links: {', '.join(sorted(protocols | packed))}; every frame read"

    def _is_unread(self, frame: DecodedFrame) -> bool:
        if frame.stream.index not in {link.stream.index for link in self.links}:
            return False
        cut_off = (frame.error or "").startswith(CAPTURE_ENDS) or frame.stream.tcp.reset is not None
        return frame.is_bad or (frame.tag in NO_FRAMES and not cut_off)


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")
