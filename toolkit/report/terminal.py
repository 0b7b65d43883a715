"""Makes text safe for a terminal: control sequences in names of peers, nodes and files have no effect."""

from typing import Any

_LAYOUT = frozenset("\n\t")


def shown(text: str) -> str:
    r"""Replace every character with an effect on a terminal by its Python escape sequence.

    These are control characters, changes of the writing direction and lone surrogates; line ends and tabs stay.

    >>> shown("osd.1\x1b[2J")
    'osd.1\\x1b[2J'
    """
    return "".join(each if each.isprintable() or each in _LAYOUT else _escaped(each) for each in text)


def shown_line(text: str) -> str:
    """Return a single line as :func:`shown` does; line ends and tabs are escaped, too."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def shown_values(values: Any) -> Any:  # noqa: ANN401 - as JSON
    """Apply :func:`shown` to all texts in JSON values, including names."""
    if isinstance(values, str):
        return shown(values)
    if isinstance(values, dict):
        return {shown(name): shown_values(value) for name, value in values.items()}
    return [shown_values(value) for value in values] if isinstance(values, list) else values


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
