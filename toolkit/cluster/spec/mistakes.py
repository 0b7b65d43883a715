"""Several mistakes at once, each with its place: validators of the model raise them, readers show them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic_core import PydanticCustomError

KIND = "spec_mistakes"
"""``type`` of the errors that :func:`refuse` raises; ``ctx`` has the ``mistakes``."""

Place = tuple[str | int, ...]
"""Keys and positions, from what is validated down to what is wrong."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong, and where."""

    place: Place
    text: str

    def below(self, *place: str | int) -> "Mistake":
        """The same, seen from further up."""
        return Mistake((*place, *self.place), self.text)


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise these mistakes, if there are any; pydantic makes a ValidationError of it."""
    found = list(mistakes)
    if found:
        words = "; ".join(f"{'.'.join(map(str, mistake.place))}: {mistake.text}" for mistake in found)
        raise PydanticCustomError(KIND, "{words}", {"words": words.lstrip(": "), "mistakes": found})


def unknown(what: str, given: str, known: Sequence[str]) -> str:
    """That there is no such thing, and what was probably meant, or all there is if that is little."""
    near = get_close_matches(given, known, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
        return f"unknown {what} {given!r}; {hint}" if len(known) > _FEW else f"{_all(what, given, known)}; {hint}"
    return _all(what, given, known)


_FEW = 8
"""So many names fit into an error."""


def _all(what: str, given: str, known: Sequence[str]) -> str:
    shown = ", ".join(known[:_FEW]) + (", ..." if len(known) > _FEW else "")
    return f"unknown {what} {given!r}; known: {shown or 'none'}"
