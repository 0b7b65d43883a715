from .blocks import LinkType as LinkType
from .packets import PacketBatch as PacketBatch
from .reader import CaptureReader as CaptureReader
from .ring import open_capture as open_capture
from .writer import PcapngWriter as PcapngWriter
