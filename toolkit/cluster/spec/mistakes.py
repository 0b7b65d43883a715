"""Several mistakes in one error, each with its place: validators of the model raise them, readers print them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic_core import PydanticCustomError

KIND = "spec_mistakes"
"""``type`` of the errors that :func:`refuse` raises; their ``ctx`` has the ``mistakes``."""

Place = tuple[str | int, ...]
"""Path of keys and positions, from the validated value down to the wrong one."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a spec: its place and a text that says what is accepted."""

    place: Place
    text: str

    def below(self, *place: str | int) -> "Mistake":
        """Return the same mistake with ``place`` put in front of its own."""
        return Mistake((*place, *self.place), self.text)


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise the mistakes, if there are any, as an error that pydantic wraps in a ValidationError."""
    found = list(mistakes)
    if found:
        words = "; ".join(f"{'.'.join(map(str, mistake.place))}: {mistake.text}" for mistake in found)
        raise PydanticCustomError(KIND, "{words}", {"words": words.lstrip(": "), "mistakes": found})


def unknown(what: str, given: str, known: Sequence[str]) -> str:
    """Return the text for an unknown name, with the closest known name, or all of them if they are few."""
    near = get_close_matches(given, known, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
        return f"unknown {what} {given!r}; {hint}" if len(known) > _FEW else f"{_all(what, given, known)}; {hint}"
    return _all(what, given, known)


_FEW = 8
"""Most names that an error lists."""


def _all(what: str, given: str, known: Sequence[str]) -> str:
    shown = ", ".join(known[:_FEW]) + (", ..." if len(known) > _FEW else "")
    return f"unknown {what} {given!r}; known: {shown or 'none'}"
