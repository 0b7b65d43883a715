"""Transports: byte streams that carry the links."""
