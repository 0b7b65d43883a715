"""The view as a Jupyter widget."""

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from toolkit.report.assets import asset


class LiveWidget(anywidget.AnyWidget):
    """Displays HTML from the kernel; ``on_message`` is called with the messages of its buttons."""

    _esm = asset("live.js")
    frame = traitlets.Unicode().tag(sync=True)
    """The containers of the parts."""
    parts = traitlets.Dict().tag(sync=True)
    """The HTML of each part by name."""

    def __init__(
        self, frame: str, parts: Mapping[str, str], on_message: Callable[[Mapping[str, Any]], None]
    ) -> None:
        super().__init__(frame=frame, parts=dict(parts))
        self.on_msg(lambda _widget, content, _buffers: on_message(content))
