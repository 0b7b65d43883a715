"""Reading the wire: who said what, with and without keys."""
