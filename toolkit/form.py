"""The hot modules of the toolkit, which `make compile` compiles like those of the messenger (docs/compiled.md)."""

from pathlib import Path

from messenger.form import MESSENGER, HotModules

TOOLKIT = HotModules(Path(__file__).parent, ("toolkit.dissect.columns.crc_messages",), base=MESSENGER)
"""Parts of the decoder that handle every frame."""
