"""The Ceph messenger in Python: msgr v1, v2, cephx and every session policy.

:class:`Messenger` is the asyncio interface, :class:`messenger.endpoint.Endpoint` the deterministic core below it.
"""

import lazy_loader

from messenger.form import MESSENGER as _HOT_MODULES

_HOT_MODULES.choose()

# __init__.pyi lists the names and their modules; a module is imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
