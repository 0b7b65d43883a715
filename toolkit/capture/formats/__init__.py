"""Capture files: reads pcap and pcapng in batches of packets, and writes pcapng."""

import lazy_loader

# The names and their homes are in __init__.pyi. A writer alone must not import numpy, which readers need.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
