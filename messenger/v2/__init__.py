"""msgr v2: frames, handshake and data phase of one link (docs/protocol.md §4)."""
