"""msgr v2: frames, handshake and data phase of one link (protocol.md §4)."""
