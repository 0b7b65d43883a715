"""TCP assembly: packets of a capture in, byte streams of each connection out."""

from toolkit.dissect.tcp.assembler import MOST_FLOWS, MOST_STREAMS, Assembler

__all__ = ["MOST_FLOWS", "MOST_STREAMS", "Assembler"]
