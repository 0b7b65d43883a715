"""Byte streams under the endpoint."""
