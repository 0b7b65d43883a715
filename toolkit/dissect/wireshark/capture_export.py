"""Exports a capture file to one that Wireshark can read in full."""

from pathlib import Path

from messenger.errors import LocalError
from toolkit.capture.formats import LinkType, PcapngWriter, open_capture
from toolkit.dissect.decode import CaptureDecoder, Decoder
from toolkit.dissect.frames import Verdict
from toolkit.dissect.keys import KeyBook
from toolkit.dissect.stream import End, StreamEvent
from toolkit.dissect.wireshark.export import SECURE, Exported, Exporter

_INTERFACE = "messenger"
_NOTE = "exported from {source} by msgrlab: what could be opened is decrypted, decompressed and in crc mode"


def export_capture(source: Path, target: Path, keys: KeyBook) -> Exported:
    """Write a capture as pcapng, with its encrypted and compressed streams opened; returns the totals.

    The capture is read twice: the form of a stream must be known at its AUTH_DONE, and keys may be learnt after
    they are needed.

    Args:
        source: path of the capture.
        target: path of the new file.
        keys: known keys; keys found in the capture are added.

    Raises:
        LocalError: the capture cannot be read or is malformed; the new file exists or cannot be written.
    """
    if target.exists():
        raise LocalError(f"{target}: exists already")
    opened, sealed, trouble = _survey(source, keys)
    with open_capture(source) as reader, PcapngWriter(target) as writer:
        writer.note(_NOTE.format(source=source.name))
        writer.interface(_INTERFACE, LinkType.RAW)
        exporter = Exporter(writer, source.name)

        def watch(event: StreamEvent) -> None:
            if event.stream.index not in opened or isinstance(event, End):
                exporter.event(event)

        decoder = Decoder(keys, watch=watch)
        for batch in reader:
            for frame in decoder.feed(batch):
                if frame.stream.index in opened:
                    exporter.frame(frame)
            exporter.flush()
        for frame in decoder.finish():
            if frame.stream.index in opened:
                exporter.frame(frame)
        exporter.flush()
    total = exporter.total
    total.opened, total.sealed, total.trouble = len(opened), len(sealed - opened), trouble
    return total


def _survey(source: Path, keys: KeyBook) -> tuple[set[int], set[int], str | None]:
    """Return the streams to write by their frames, the encrypted ones, and what could not be decoded."""
    opened: set[int] = set()
    sealed: set[int] = set()
    missing = ""
    with CaptureDecoder(source, keys) as decoding:
        for frame in decoding:
            index = frame.stream.index
            if (frame.mode == SECURE and frame.segments) or (frame.compressed and not frame.error):
                opened.add(index)
            elif frame.auth is Verdict.NO_KEY and not frame.segments:
                sealed.add(index)
                missing = missing or f" ({frame.error})"
        problem = decoding.problem
    return opened, sealed, f"{problem}{missing}" if problem else None
