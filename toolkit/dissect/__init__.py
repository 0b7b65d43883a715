"""Decodes captures of the messenger protocols into frames, with or without keys."""
