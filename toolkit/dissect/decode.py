"""From captures to decoded frames: files, or packets as they are taken.

:func:`decode_capture` is all that most callers need; :class:`CaptureDecoder` under it has the totals, and
:class:`Decoder` takes packets from anywhere.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Self

from messenger.errors import LocalError
from messenger.v2.framing import FrameCaches
from toolkit.capture.formats import CaptureReader, PacketBatch, open_capture
from toolkit.capture.formats.source import CaptureFiles
from toolkit.dissect.assembly import Assembly
from toolkit.dissect.connects import FailedConnects, failed_connects
from toolkit.dissect.frames import CAPTURE_ENDS, GAP, IN_PART, UNKNOWN, DecodedFrame, Verdict
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.keys.recent import Recent
from toolkit.dissect.links import LinkDecoder, Names, OpenPhase
from toolkit.dissect.stream import End, Stream, StreamEvent
from toolkit.dissect.tcp import MOST_FLOWS, MOST_STREAMS

_MOST_PENDING_BYTES = 144 << 20
"""Of frames that are not complete, on all links together."""
_LARGEST_RUN_BYTES = 1 << 23
"""Twice as long as what is read of a capture in one go."""


class Totals:
    """What became of a capture's bytes."""

    def __init__(self) -> None:
        self.frames = 0
        """Records, those of gaps and of undecoded bytes included."""
        self.undecoded = 0
        """Stretches of bytes without recognisable frames."""
        self.undecoded_bytes = 0
        """How long they are together."""
        self.gaps = 0
        """Stretches that the capture does not have."""
        self.missing_bytes = 0
        """How long they are together."""
        self.bad = 0
        """Frames with a wrong crc, authentication tag or signature."""
        self.no_key = 0
        """Frames, and stretches of bytes, that a key would open or prove which is not known."""
        self.first_reason: str | None = None
        """Why the first of the stretches is not decoded."""
        self.cut_off = 0
        """Those of the stretches that are frames which go on behind the end of the capture."""
        self.cut_off_bytes = 0
        """How long they are together."""
        self.in_part = 0
        """Frames of which the capture has the header, and not all of the rest."""
        self.undecodable = 0
        """Frames whose contents do not decode, though nothing else is wrong with them."""

    def count(self, frame: DecodedFrame) -> None:
        """One more record."""
        self.frames += 1
        if frame.error is not None:
            self.count_wrong(frame.tag, frame.crc, frame.auth, frame.error, 1, frame.length)
            if frame.tag == UNKNOWN and frame.error.startswith(CAPTURE_ENDS):
                self.cut_off += 1
                self.cut_off_bytes += frame.length

    def count_wrong(self, tag: str, crc: str, auth: str, error: str, frames: int, size_bytes: int) -> None:
        """Of the records counted, so many have something wrong with them, the first of them this.

        Args:
            tag: of each.
            crc: verdict on each.
            auth: verdict on each.
            error: of the first.
            frames: how many.
            size_bytes: how long they are together.
        """
        if tag == GAP:
            self.gaps += frames
            self.missing_bytes += size_bytes
            return
        if auth == Verdict.NO_KEY:
            self.no_key += frames
        if tag == UNKNOWN:
            self.undecoded += frames
            self.undecoded_bytes += size_bytes
            self.first_reason = self.first_reason or error
        elif Verdict.BAD in {crc, auth}:
            self.bad += frames
        elif error == IN_PART:
            self.in_part += frames
        elif auth != Verdict.NO_KEY:
            self.undecodable += frames

    @property
    def problem(self) -> str | None:
        """What could not be decoded, in one line; None if everything was."""
        return self.problem_of(unfinished=False)

    def problem_of(self, *, unfinished: bool) -> str | None:
        """As :attr:`problem`; of an unfinished capture, frames that go on behind its end are none."""
        parts = []
        places = self.undecoded - (self.cut_off if unfinished else 0)
        if places:
            size_bytes = self.undecoded_bytes - (self.cut_off_bytes if unfinished else 0)
            where = _counted(places, "place")
            parts.append(f"{size_bytes} bytes in {where} are not decoded ({self.first_reason})")
        if self.missing_bytes:
            parts.append(f"{self.missing_bytes} bytes in {_counted(self.gaps, 'place')} are missing")
        if self.bad:
            parts.append(f"{_counted(self.bad, 'frame')} with a wrong crc or signature")
        if self.in_part:
            parts.append(f"{_counted(self.in_part, 'frame')} with parts that the capture does not have")
        if self.undecodable:
            parts.append(f"{_counted(self.undecodable, 'frame')} with contents that do not decode")
        return "; ".join(parts) or None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Links:
    """The links of a capture, each with its decoder.

    Args:
        keys: what is known; it grows by what the packets tell.
        emit: takes each record; within a batch they come link by link.
        ports: look at connections only that have one of these at either end; None: at all.
        open_phase: takes the frames of open links; by default each becomes a record.
        watch: is shown what happens on every stream before it is decoded.
        most_links: how many TCP connections are remembered at a time; a forgotten one gets no more bytes.
        most_streams: how many are listed, for :attr:`streams`.
    """

    def __init__(
        self,
        keys: KeyBook,
        emit: Callable[[DecodedFrame], None],
        ports: Collection[int] | None = None,
        open_phase: OpenPhase | None = None,
        watch: Callable[[StreamEvent], None] | None = None,
        *,
        most_links: int = MOST_FLOWS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self._most_links = most_links
        self._watch = watch
        self._ended_messengers: Recent[int, bool] = Recent(most_streams)
        self.ends: deque[End] = deque(maxlen=most_links)
        """How directions of streams ended, in that order; for those who show it."""
        self.other_streams = 0
        """Connections that have ended and were not a messenger's."""
        _keep_large_blocks()
        self._new_link = partial(
            LinkDecoder, keys=keys, emit=emit, names=Names(), open_phase=open_phase, caches=FrameCaches()
        )
        self._assembler = Assembly(ports, most_links, most_streams)
        self._links: dict[int, LinkDecoder] = {}
        """By stream, those that are not over."""
        self._over: Recent[int, bool] = Recent(most_links)
        """Streams whose link is over; whose last packet came before as many others is not assembled any more."""
        self._pending: dict[int, int] = {}
        """By stream, for links that are not over: memory for incomplete frames; the least active link first."""
        self._pending_bytes = 0
        """Of all links together."""

    @property
    def skipped(self) -> str | None:
        """Packets that were not read, by reason, in one line; None if there were none."""
        counts = [f"{count:,} {reason}" for reason, count in self._assembler.skipped.items() if count]
        return f"packets not read: {', '.join(counts)}" if counts else None

    @property
    def messengers(self) -> set[int]:
        """Streams that have proved to be a messenger's, by index."""
        return {*self._ended_messengers, *(i for i, link in self._links.items() if link.is_messenger)}

    @property
    def streams(self) -> list[Stream]:
        """The TCP connections so far, as far as memory is spent on them."""
        return self._assembler.known

    def feed(self, batch: PacketBatch) -> None:
        """Read what these packets bring."""
        for event in self._assembler.feed(batch):
            self._take(event)
            if self._pending_bytes > _MOST_PENDING_BYTES:
                self._give_up_frames()
            if len(self._pending) > self._most_links:
                self._forget_links()

    def finish(self) -> None:
        """Say what is left to say when no packets come any more."""
        for event in self._assembler.finish():
            self._take(event)
        for index in sorted(self._pending):
            self._forget(index)

    def _take(self, event: StreamEvent) -> None:
        if self._watch is not None:
            self._watch(event)
        if isinstance(event, End):
            self.ends.append(event)
        index = event.stream.index
        if index in self._over:
            self._over.put(index, True)
            return
        known = self._links.get(index)
        if known is None:
            known = self._links[index] = self._new_link(event.stream)
        known.take(event)
        before_bytes, now_bytes = self._pending.pop(index, 0), known.pending_bytes
        self._pending[index] = now_bytes  # which is last now
        self._pending_bytes += now_bytes - before_bytes
        if known.over:
            self._forget(index)

    def _forget(self, index: int) -> None:
        link = self._links.pop(index)
        link.finish()
        self._over.put(index, True)
        self._pending_bytes -= self._pending.pop(index)
        self.other_streams += not (link.is_messenger or link.introduces)
        if link.is_messenger:
            self._ended_messengers.put(index, True)

    def _give_up_frames(self) -> None:
        """Give up the largest incomplete frames until half of the limit is free, for this looks at every link."""
        for index in sorted(self._pending, key=self._pending.__getitem__, reverse=True):
            if self._pending_bytes <= _MOST_PENDING_BYTES // 2:
                return
            self._links[index].give_up()
            self._pending_bytes -= self._pending[index]
            self._pending[index] = 0

    def _forget_links(self) -> None:
        """Finish the half of the links that were silent longest."""
        for index in list(islice(self._pending, self._most_links // 2)):
            self._forget(index)


def _keep_large_blocks() -> None:
    """Let the C library keep the memory of runs from batch to batch.

    glibc gives a block back to the kernel if it is larger than any that was freed before, and to get it again
    costs a page fault for each 4 KiB: a quarter of the time that it takes to decode a capture.
    """
    bytearray(_LARGEST_RUN_BYTES)


class Decoder:
    """Decodes packets, wherever they come from.

    Args:
        keys: what is known; it grows by what the packets tell.
        ports: look at connections only that have one of these at either end; None: at all.
        watch: is shown what happens on every stream before it is decoded.
        most_links: how many TCP connections are remembered at a time; a forgotten one gets no more bytes.
        most_streams: how many are listed, for :attr:`streams` and :meth:`failed_connects`.
    """

    def __init__(
        self,
        keys: KeyBook | None = None,
        *,
        ports: Collection[int] | None = None,
        watch: Callable[[StreamEvent], None] | None = None,
        most_links: int = MOST_FLOWS,
        most_streams: int = MOST_STREAMS,
    ) -> None:
        self.keys = keys if keys is not None else KeyBook()
        self.totals = Totals()
        self._found: list[DecodedFrame] = []
        self._links = Links(
            self.keys,
            self._found.append,
            ports,
            watch=watch,
            most_links=most_links,
            most_streams=most_streams,
        )

    @property
    def other_streams(self) -> int:
        """Connections that have ended and were not a messenger's."""
        return self._links.other_streams

    @property
    def streams(self) -> list[Stream]:
        """The TCP connections so far, those that are no messenger's too, as far as memory is spent on them."""
        return self._links.streams

    @property
    def skipped(self) -> str | None:
        """Packets that were not read, by reason, in one line; None if there were none."""
        return self._links.skipped

    def ends_before(self, packet: int | None) -> Iterator[End]:
        """The ends of directions that came before a packet (None: all) and were not given yet."""
        ends = self._links.ends
        while ends and (packet is None or ends[0].packet < packet):
            yield ends.popleft()

    def failed_connects(self) -> list[FailedConnects]:
        """TCP connections to messengers that nothing came of, as far as the packets go."""
        linked = self._links.messengers
        servers = {stream.server for stream in self.streams if stream.index in linked}
        last_ns = max((stream.tcp.last_ns for stream in self.streams), default=0)
        return failed_connects(self.streams, linked, servers, last_ns)

    @property
    def problem(self) -> str | None:
        """What could not be decoded, in one line; None if everything was."""
        return self.totals.problem

    def feed(self, batch: PacketBatch) -> list[DecodedFrame]:
        """The frames that these packets complete, in that order."""
        self._links.feed(batch)
        return self._drain()

    def finish(self) -> list[DecodedFrame]:
        """What is left to say when no packets come any more."""
        self._links.finish()
        return self._drain()

    def _drain(self) -> list[DecodedFrame]:
        found, self._found[:] = self._found[:], ()
        # Each direction comes by itself, so put them back into the order of the packets that completed them.
        found.sort(key=lambda frame: frame.packet)
        for frame in found:
            frame.frame = self.totals.frames
            self.totals.count(frame)
        return found


class KeysInside:
    """Key logs inside a capture.

    Args:
        reader: of the capture.
        keys: where to add them.
    """

    def __init__(self, reader: CaptureReader, keys: KeyBook) -> None:
        self.problem: str | None = None
        """What is wrong with one of them."""
        self._reader = reader
        self._keys = keys
        self._learnt = 0

    def learn(self) -> None:
        """Add those that have been met since the last call."""
        secrets = self._reader.secrets
        for text in secrets[self._learnt :]:
            try:
                self._keys.add_key_log(text, "key log in the capture")
            except LocalError as error:
                self.problem = str(error)
        self._learnt = len(secrets)


class CaptureDecoder:
    """Decodes a capture file. A context manager; iterate over it once.

    Args:
        source: its path, or a file open for reading, or several.
        keys: what is known; it grows by what the capture tells. Key logs inside it are used in any case.
        ports: as for :class:`Decoder`.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """

    def __init__(
        self, source: CaptureFiles, keys: KeyBook | None = None, *, ports: Collection[int] | None = None
    ) -> None:
        self.reader: CaptureReader = open_capture(source)
        self.decoder = Decoder(keys, ports=ports)
        self._inside = KeysInside(self.reader, self.decoder.keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.reader.close()

    @property
    def frames(self) -> int:
        """How many records there were so far."""
        return self.decoder.totals.frames

    @property
    def undecoded(self) -> int:
        """How many stretches of bytes could not be decoded so far."""
        return self.decoder.totals.undecoded

    @property
    def problem(self) -> str | None:
        """What could not be read or decoded so far, in one line; None if everything was."""
        totals = self.decoder.totals.problem_of(unfinished=self.reader.unfinished is not None)
        problems = [self.reader.problem, self._inside.problem, totals]
        return "; ".join(problem for problem in problems if problem) or None

    def __iter__(self) -> Iterator[DecodedFrame]:
        """The frames, in the order in which packets completed them.

        Raises:
            LocalError: the file cannot be read any further.
        """
        for batch in self.reader:
            self._inside.learn()
            yield from self.decoder.feed(batch)
        yield from self.decoder.finish()


def decode_capture(
    path: CaptureFiles, keys: KeyBook | None = None, *, ports: Collection[int] | None = None
) -> Iterator[DecodedFrame]:
    """The frames of a capture, in bounded memory.

    Args:
        path: of the file, or the file open for reading, or several.
        keys: what is known.
        ports: look at connections only that have one of these at either end; None: at all.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """
    with CaptureDecoder(path, keys, ports=ports) as decoding:
        yield from decoding
