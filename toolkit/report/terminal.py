"""Text for a terminal: words of peers, nodes and files are shown, not obeyed."""

from typing import Any

_LAYOUT = frozenset("\n\t")


def shown(text: str) -> str:
    r"""The text with every character that a terminal would act on as an escape sequence of Python's.

    Those are control characters, changes of the direction of writing and lone surrogates; line ends and tabs stay.

    >>> shown("osd.1\x1b[2J")
    'osd.1\\x1b[2J'
    """
    return "".join(each if each.isprintable() or each in _LAYOUT else _escaped(each) for each in text)


def shown_line(text: str) -> str:
    """The same on one line: line ends and tabs are escaped, too."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def shown_values(values: Any) -> Any:  # noqa: ANN401 - as JSON
    """JSON values with all texts in them, names as well, as :func:`shown` has them."""
    if isinstance(values, str):
        return shown(values)
    if isinstance(values, dict):
        return {shown(name): shown_values(value) for name, value in values.items()}
    return [shown_values(value) for value in values] if isinstance(values, list) else values


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
