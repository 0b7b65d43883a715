"""Decodes captures into frames: from files, or from packets while they are captured.

:func:`decode_capture` is enough for most callers. :class:`CaptureDecoder`, on which it is built, also gives
totals; :class:`Decoder` decodes packets from any source.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from operator import attrgetter
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
"""Limit for the memory of incomplete frames, all links together."""
_LARGEST_RUN_BYTES = 1 << 23
"""Twice the size of one read from a capture."""


class Totals:
    """Counts of a capture's frames, and of its bytes that could not be decoded."""

    def __init__(self) -> None:
        self.frames = 0
        """Number of records, including those of gaps and of undecoded bytes."""
        self.undecoded = 0
        """Number of stretches of bytes without recognisable frames."""
        self.undecoded_bytes = 0
        """Their total length."""
        self.gaps = 0
        """Number of stretches that the capture lacks."""
        self.missing_bytes = 0
        """Their total length."""
        self.bad = 0
        """Frames with a wrong crc, authentication tag or signature."""
        self.no_key = 0
        """Frames, and stretches of bytes, that cannot be decrypted or verified because the key is unknown."""
        self.first_reason: str | None = None
        """Why the first undecoded stretch is not decoded; None if there is none."""
        self.cut_off = 0
        """Number of undecoded stretches that are frames cut off by the end of the capture."""
        self.cut_off_bytes = 0
        """Their total length."""
        self.in_part = 0
        """Frames whose header is in the capture, but not all of the rest."""
        self.undecodable = 0
        """Frames whose contents do not decode, with nothing else wrong."""

    def count_error(self, frame: DecodedFrame) -> None:
        """Count what is wrong with a record that is counted already in :attr:`frames`."""
        error = frame.error or ""
        self.count_wrong(frame.tag, frame.crc, frame.auth, error, 1, frame.length)
        if frame.tag == UNKNOWN and error.startswith(CAPTURE_ENDS):
            self.cut_off += 1
            self.cut_off_bytes += frame.length

    def count_wrong(self, tag: str, crc: str, auth: str, error: str, frames: int, size_bytes: int) -> None:
        """Count what is wrong with records that are counted already in :attr:`frames`.

        Args:
            tag: tag of each record.
            crc: verdict on the crcs of each record.
            auth: verdict on the authentication of each record.
            error: error of the first record.
            frames: number of records.
            size_bytes: their total length.
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
        """As :attr:`problem`; in an unfinished capture, frames cut off by its end are no problem."""
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
        keys: known keys; keys found in the packets are added.
        emit: called with each record; within a batch, records come link by link.
        ports: decode only connections with one of these ports at either end; None decodes all.
        open_phase: reads the frames of open links; by default each frame becomes a record.
        watch: called with each event of every stream before the event is decoded.
        most_links: limit of the TCP connections that are tracked at a time; bytes of a dropped one are ignored.
        most_streams: limit of the connections in :attr:`streams`.
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
        """Ends of directions of streams, oldest first, for callers that display them."""
        self.other_streams = 0
        """Number of ended connections that were not a messenger's."""
        _keep_large_blocks()
        self._new_link = partial(
            LinkDecoder, keys=keys, emit=emit, names=Names(), open_phase=open_phase, caches=FrameCaches()
        )
        self._assembler = Assembly(ports, most_links, most_streams)
        self._links: dict[int, LinkDecoder] = {}
        """By stream, the links that have not ended."""
        self._over: Recent[int, bool] = Recent(most_links)
        """Streams whose link has ended. Packets of a stream that was silent for too long are no longer
        assembled."""
        self._pending: dict[int, int] = {}
        """By stream, memory in bytes for incomplete frames of links that have not ended; the least active link
        first."""
        self._pending_bytes = 0
        """Sum over all links."""

    @property
    def skipped(self) -> str | None:
        """Number of packets that were not read, by reason, in one line; None if all were read."""
        counts = [f"{count:,} {reason}" for reason, count in self._assembler.skipped.items() if count]
        return f"packets not read: {', '.join(counts)}" if counts else None

    @property
    def messengers(self) -> set[int]:
        """Indexes of the streams that are known to be a messenger's."""
        return {*self._ended_messengers, *(i for i, link in self._links.items() if link.is_messenger)}

    @property
    def streams(self) -> list[Stream]:
        """The TCP connections so far, up to ``most_streams``."""
        return self._assembler.known

    def feed(self, batch: PacketBatch) -> None:
        """Decode a batch of packets."""
        for event in self._assembler.feed(batch):
            self._take(event)
            if self._pending_bytes > _MOST_PENDING_BYTES:
                self._give_up_frames()
            if len(self._pending) > self._most_links:
                self._forget_links()

    def finish(self) -> None:
        """Emit what is left after the last packet."""
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
        """Drop the largest incomplete frames until half of the limit is free.

        Half, because each call sorts all links.
        """
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
    """Make the C library keep the memory of runs from batch to batch.

    glibc returns a block to the kernel if it is larger than any block freed before. Getting it again costs a page
    fault per 4 KiB, which is a quarter of the time to decode a capture.
    """
    bytearray(_LARGEST_RUN_BYTES)


class Decoder:
    """Decodes packets from any source.

    Args:
        keys: known keys; keys found in the packets are added.
        ports: decode only connections with one of these ports at either end; None decodes all.
        watch: called with each event of every stream before the event is decoded.
        most_links: limit of the TCP connections that are tracked at a time; bytes of a dropped one are ignored.
        most_streams: limit of the connections in :attr:`streams` and :meth:`failed_connects`.
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
        """Number of ended connections that were not a messenger's."""
        return self._links.other_streams

    @property
    def streams(self) -> list[Stream]:
        """The TCP connections so far, also those that are no messenger's, up to ``most_streams``."""
        return self._links.streams

    @property
    def skipped(self) -> str | None:
        """Number of packets that were not read, by reason, in one line; None if all were read."""
        return self._links.skipped

    def ends_before(self, packet: int | None) -> Iterator[End]:
        """Yield, each once, the ends of directions that came before ``packet`` (None: all)."""
        ends = self._links.ends
        while ends and (packet is None or ends[0].packet < packet):
            yield ends.popleft()

    def failed_connects(self) -> list[FailedConnects]:
        """Return the TCP connections to messengers that failed, as far as the packets show."""
        linked = self._links.messengers
        servers = {stream.server for stream in self.streams if stream.index in linked}
        last_ns = max((stream.tcp.last_ns for stream in self.streams), default=0)
        return failed_connects(self.streams, linked, servers, last_ns)

    @property
    def problem(self) -> str | None:
        """What could not be decoded, in one line; None if everything was."""
        return self.totals.problem

    def feed(self, batch: PacketBatch) -> list[DecodedFrame]:
        """Decode a batch of packets; returns the frames that it completes, in the order of the packets."""
        self._links.feed(batch)
        return self._drain()

    def finish(self) -> list[DecodedFrame]:
        """Return the records that are left after the last packet."""
        self._links.finish()
        return self._drain()

    def _drain(self) -> list[DecodedFrame]:
        found, self._found[:] = self._found[:], ()
        # Each direction is decoded separately, so restore the order of the packets that completed the frames.
        found.sort(key=attrgetter("packet"))
        totals = self.totals
        for number, frame in enumerate(found, totals.frames):
            frame.frame = number
            if frame.error is not None:
                totals.count_error(frame)
        totals.frames += len(found)
        return found


class KeysInside:
    """The key logs inside a capture.

    Args:
        reader: reader of the capture.
        keys: book to which the keys are added.
    """

    def __init__(self, reader: CaptureReader, keys: KeyBook) -> None:
        self.problem: str | None = None
        """What is wrong with the last malformed key log; None if all are well-formed."""
        self._reader = reader
        self._keys = keys
        self._learnt = 0

    def learn(self) -> None:
        """Add the key logs that were read since the last call."""
        secrets = self._reader.secrets
        for text in secrets[self._learnt :]:
            try:
                self._keys.add_key_log(text, "key log in the capture")
            except LocalError as error:
                self.problem = str(error)
        self._learnt = len(secrets)


class CaptureDecoder:
    """Decodes a capture file. A context manager; iterate over it once.

    >>> with CaptureDecoder("captures/reef-osds/capture.pcapng.gz") as capture:  # doctest: +SKIP
    ...     for frame in capture:
    ...         print(frame.tag, frame.src, frame.dst)

    Args:
        source: path of the capture, a file open for reading, or a list of several.
        keys: known keys; keys found in the capture are added. Key logs inside it are always used.
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
        """Number of records so far."""
        return self.decoder.totals.frames

    @property
    def undecoded(self) -> int:
        """Number of stretches of bytes so far that could not be decoded."""
        return self.decoder.totals.undecoded

    @property
    def problem(self) -> str | None:
        """What could not be read or decoded so far, in one line; None if nothing is wrong."""
        totals = self.decoder.totals.problem_of(unfinished=self.reader.unfinished is not None)
        problems = [self.reader.problem, self._inside.problem, totals]
        return "; ".join(problem for problem in problems if problem) or None

    def __iter__(self) -> Iterator[DecodedFrame]:
        """Yield the frames, in the order in which packets completed them.

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
    """Yield the frames of a capture, in bounded memory.

    Args:
        path: path of the capture, a file open for reading, or a list of several.
        keys: known keys; keys found in the capture are added.
        ports: decode only connections with one of these ports at either end; None decodes all.

    Raises:
        LocalError: the file cannot be read, or is no capture.
    """
    with CaptureDecoder(path, keys, ports=ports) as decoding:
        yield from decoding
