"""Reading the wire: the frames of each side, with and without keys."""
