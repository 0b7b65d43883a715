"""Capture files: reads pcap and pcapng in batches of packets, and writes pcapng."""

from toolkit.capture.formats.packets import LinkType, PacketBatch
from toolkit.capture.formats.reader import CaptureReader
from toolkit.capture.formats.ring import open_capture
from toolkit.capture.formats.writer import PcapngWriter

__all__ = ["CaptureReader", "LinkType", "PacketBatch", "PcapngWriter", "open_capture"]
