"""TCP assembly: packets of a capture in, the bytes of each connection out."""

from toolkit.dissect.tcp.assembler import Assembler

__all__ = ["Assembler"]
