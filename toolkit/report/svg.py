"""SVG elements as text. All texts from a history are escaped here."""

import re
from base64 import b64encode
from html import escape as escape_markup

from toolkit.report.text import printable


def escape(content: str) -> str:
    """Escape text for the inside of an element or an attribute."""
    return escape_markup(printable(content))


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element; ``class_`` becomes ``class``, ``text_anchor`` ``text-anchor``; floats are shortened."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _short(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def text(x: float, y: float, content: str, class_: str, anchor: str = "start") -> str:
    """Return a line of text."""
    return element("text", escape(content), x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: str, class_: str) -> str:
    """Return a path."""
    return element("path", d=points, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, radius: float = 0) -> str:
    """Return a rectangle with rounded corners."""
    return element("rect", x=x, y=y, width=width, height=height, rx=radius, class_=class_)


def without_tips(drawing: str) -> str:
    """Remove the tooltips of a drawing's groups."""
    return re.sub(r"<g([^>]*)><title>[^<]*</title>", r"<g\1>", drawing)


def group(parts: list[str], tip: str = "", class_: str = "") -> str:
    """Return elements as a group with a tooltip."""
    title = element("title", escape(tip)) if tip else ""
    return element("g", title + "".join(parts), class_=class_) if class_ else element("g", title + "".join(parts))


def image(drawing: str, css: str, class_: str) -> str:
    """Return an HTML image of a drawing, with its description as the alternative text.

    Args:
        drawing: the ``svg`` element.
        css: style sheet of the drawing.
        class_: class of the outermost element in the style sheet.
    """
    described = re.search(r"<desc>([^<]*)</desc>", drawing)
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing)
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    if size:
        head += f'width="{size[1]}" height="{size[2]}" '
    inner = drawing.removeprefix("<svg ")
    inner = inner.replace('class="', f'class="{class_} ', 1).replace(">", f"><style>{css}</style>", 1)
    data = b64encode((head + inner).encode()).decode()
    return f'<img alt="{described[1] if described else ""}" src="data:image/svg+xml;base64,{data}">'
