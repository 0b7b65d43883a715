"""msgr v1: wire structures, framing, handshake tables and data phase (protocol.md §3)."""
