"""Captures of packets: taking, reading and writing them. In a notebook, start with :func:`capturing`."""

import lazy_loader

# The names and their homes are in __init__.pyi; importing the package costs nothing until one is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
