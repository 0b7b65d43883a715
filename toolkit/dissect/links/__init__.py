"""Decodes the bytes of links into frames: v1, v2.0 and v2.1, with all verifications (docs/protocol.md §3, §4)."""

from toolkit.dissect.links.decoder import LinkDecoder
from toolkit.dissect.links.lane import FlowLane, OpenPhase, RecordPhase
from toolkit.dissect.links.names import Names
from toolkit.dissect.links.v1 import V1Lane
from toolkit.dissect.links.v2lane import V2Lane

__all__ = ["FlowLane", "LinkDecoder", "Names", "OpenPhase", "RecordPhase", "V1Lane", "V2Lane"]
