"""The Ceph messenger in Python: msgr v2, cephx, every session policy.

:class:`Messenger` is the asyncio face; :class:`messenger.endpoint.Endpoint` is the deterministic core under it.
"""

import lazy_loader

from messenger.form import choose as _choose

_choose()

# The names and their homes are in __init__.pyi; importing the package costs nothing until one is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
