"""Link states as words of a command line and as readable text; both can be parsed."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from messenger.errors import LocalError
from toolkit.network.state import FourStates, GilbertElliott, LinkState, RandomLoss

S = TypeVar("S", bound=LinkState)

CLEAR = "no impairments"
_RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_DISTRIBUTIONS = ("uniform", "normal", "pareto", "paretonormal")


def _number(value: str) -> float:
    return float(value.removesuffix("%"))


def _milliseconds(value: str) -> float:
    return float(value.removesuffix("ms"))


def _rate(value: str) -> int:
    """Parse a rate in bits per second: 10mbit, 1gbit, or a number."""
    digits = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    return round(float(digits) * _RATE_UNITS[value[len(digits) :] or "bit"])


_WORDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "delay-ms": ("delay_ms", _milliseconds),
    "jitter-ms": ("jitter_ms", _milliseconds),
    "delay-correlation": ("delay_correlation_percent", _number),
    "distribution": ("distribution", str),
    "loss": ("loss.percent", _number),
    "loss-correlation": ("loss.correlation_percent", _number),
    "loss-to-bad": ("loss.to_bad_percent", _number),
    "loss-to-good": ("loss.to_good_percent", _number),
    "loss-in-bad": ("loss.bad_loss_percent", _number),
    "loss-in-good": ("loss.good_loss_percent", _number),
    "loss-p13": ("loss.p13", _number),
    "loss-p31": ("loss.p31", _number),
    "loss-p32": ("loss.p32", _number),
    "loss-p23": ("loss.p23", _number),
    "loss-p14": ("loss.p14", _number),
    "duplicate": ("duplicate_percent", _number),
    "duplicate-correlation": ("duplicate_correlation_percent", _number),
    "reorder": ("reorder_percent", _number),
    "reorder-correlation": ("reorder_correlation_percent", _number),
    "reorder-gap": ("reorder_gap", int),
    "corrupt": ("corrupt_percent", _number),
    "corrupt-correlation": ("corrupt_correlation_percent", _number),
    "rate": ("rate_bits_per_s", _rate),
    "limit": ("limit_packets", int),
    "slot-min-ms": ("slot.min_delay_ms", _milliseconds),
    "slot-max-ms": ("slot.max_delay_ms", _milliseconds),
    "slot-packets": ("slot.packets", int),
    "slot-bytes": ("slot.bytes", int),
    "seed": ("seed", int),
}
KNOWN_WORDS = tuple(_WORDS)
_WORD_OF = {field: word for word, (field, _) in _WORDS.items()}


def from_words(model: type[S], words: Iterable[str]) -> S:
    """Parse the state in ``KEY=VALUE`` words.

    Raises:
        LocalError: an unknown word, a wrong value, or values that do not go together.
    """
    values: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in _WORDS:
            near = difflib.get_close_matches(key, _WORDS, 3) or _WORDS
            raise LocalError(f"link: no {key!r}; there is {', '.join(near)}")
        field, convert = _WORDS[key]
        try:
            found = convert(value)
        except (ValueError, KeyError):
            raise LocalError(f"link: {key} takes a {_kind(convert)}, not {value!r}") from None
        inner, _, leaf = field.rpartition(".")
        (values.setdefault(inner, {}) if inner else values)[leaf] = found
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise LocalError(f"link: {'; '.join(_complaints(error))}") from None


def _kind(convert: Callable[[str], object]) -> str:
    kinds = {int: "whole number", _rate: "rate such as 10mbit", _milliseconds: "time in milliseconds"}
    return kinds.get(convert, "number")


def _complaints(error: ValidationError) -> Iterator[str]:
    """Yield validation errors with the words in place of the model's fields."""
    for found in error.errors():
        parts = [str(part) for part in found["loc"] if part not in {"RandomLoss", "GilbertElliott", "FourStates"}]
        field = ".".join(parts)
        message = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            message = "goes with another loss model than the other words"
        for name, word in _WORD_OF.items():
            message = re.sub(rf"\b{name}\b", word, message) if "." not in name else message
        yield f"{_WORD_OF.get(field, field)}: {message}" if field else message


def words_of_text(text: str) -> list[str]:
    """Return the words for a text such as ``delay 50ms ± 5ms normal, loss 1%``.

    Raises:
        LocalError: the text is not of that form.
    """
    if text.strip() in {"", CLEAR}:
        return []
    words = []
    for clause in text.split(","):
        head, *rest = re.sub(r"(?<=\d)\s+(?=ms\b|%)", "", clause.replace("±", " ± ")).split() or [""]
        words += list(_words_of_clause(head, rest))
    return words


def _words_of_clause(head: str, rest: list[str]) -> Iterator[str]:
    tokens = iter(rest)
    for position, token in enumerate(tokens):
        if token in _DISTRIBUTIONS:
            yield f"distribution={token}"
        elif head == "slot" and position == 0:
            least, _, most = token.partition("..")
            yield f"slot-min-ms={least}"
            yield f"slot-max-ms={most or least}"
        elif token[0].isdecimal():
            yield f"{'delay-ms' if head == 'delay' else head}={token}"
        else:
            key = "jitter-ms" if token == "±" else f"{head}-{token}"  # noqa: S105 - no password
            yield f"{key}={next(tokens, '')}"
    if not rest:
        raise LocalError(f"link: nothing follows {head!r}")


def text(state: LinkState) -> str:
    """Return the state as text, which :func:`words_of_text` parses."""
    return ", ".join(_clauses(state)) or CLEAR


def _clauses(state: LinkState) -> Iterator[str]:
    if state.delay_ms:
        jitter = f" ± {_plain(state.jitter_ms)}ms {state.distribution}" if state.jitter_ms else ""
        yield f"delay {_plain(state.delay_ms)}ms{jitter}{_correlation(state.delay_correlation_percent)}"
    if state.loss:
        yield f"loss {_loss(state.loss)}"
    if state.duplicate_percent:
        correlation = _correlation(state.duplicate_correlation_percent)
        yield f"duplicate {_plain(state.duplicate_percent)}%{correlation}"
    if state.reorder_percent:
        gap = f" gap {state.reorder_gap}" if state.reorder_gap else ""
        yield f"reorder {_plain(state.reorder_percent)}%{_correlation(state.reorder_correlation_percent)}{gap}"
    if state.corrupt_percent:
        yield f"corrupt {_plain(state.corrupt_percent)}%{_correlation(state.corrupt_correlation_percent)}"
    if state.rate_bits_per_s:
        yield f"rate {_rate_text(state.rate_bits_per_s)}"
    if slot := state.slot:
        most = f"..{_plain(slot.max_delay_ms)}ms" if slot.max_delay_ms != slot.min_delay_ms else ""
        packets = f" packets {slot.packets}" if slot.packets else ""
        size = f" bytes {slot.bytes}" if slot.bytes else ""
        yield f"slot {_plain(slot.min_delay_ms)}ms{most}{packets}{size}"
    if state.limit_packets != LinkState.model_fields["limit_packets"].default:
        yield f"limit {state.limit_packets}"
    if state.seed is not None:
        yield f"seed {state.seed}"


def _loss(loss: RandomLoss | GilbertElliott | FourStates) -> str:
    if isinstance(loss, RandomLoss):
        return f"{_plain(loss.percent)}%{_correlation(loss.correlation_percent)}"
    words = ((_WORD_OF[f"loss.{name}"].removeprefix("loss-"), percent) for name, percent in loss)
    return " ".join(f"{word} {_plain(percent)}%" for word, percent in words)


def _correlation(percent: float) -> str:
    return f" correlation {_plain(percent)}%" if percent else ""


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _rate_text(bits_per_s: int) -> str:
    for unit, size in reversed(_RATE_UNITS.items()):
        if bits_per_s % size == 0:
            return f"{bits_per_s // size}{unit}"
    return f"{bits_per_s}bit"
