"""msgr v1: wire structures, framing, handshake tables and data phase (docs/protocol.md §3)."""
