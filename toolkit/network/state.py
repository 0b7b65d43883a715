"""Everything that can happen to packets on a link, in one direction; the words are those of Linux netem.

The model knows what makes sense together and refuses the rest, so that neither the kernel nor the wire in user
space (docs/links.md) ever has to guess.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from toolkit.errors import Unsupported

Percent = Annotated[float, Field(ge=0, le=100)]
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]
Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RandomLoss(_Model):
    """Every packet is lost with the same probability, or more like the one before."""

    percent: Percent
    correlation_percent: Percent = 0.0


class GilbertElliott(_Model):
    """Two states: a good one, in which few packets are lost, and a bad one (netem ``loss gemodel``)."""

    to_bad_percent: Percent
    """p: from good to bad."""
    to_good_percent: Percent = 100.0
    """r: from bad to good."""
    bad_loss_percent: Percent = 100.0
    """1-h: lost in the bad state."""
    good_loss_percent: Percent = 0.0
    """1-k: lost in the good state."""


class FourStates(_Model):
    """Bursts and gaps, each with losses of its own (netem ``loss state``).

    The states are 1, packets arrive in a gap between bursts; 2, they arrive within a burst; 3, they are lost
    within a burst; 4, one is lost in a gap. ``p13`` leads from 1 to 3, and so on; 4 always leads to 1.
    """

    p13: Percent
    p31: Percent = 100.0
    p32: Percent = 0.0
    p23: Percent = 100.0
    p14: Percent = 0.0

    @model_validator(mode="after")
    def _check_ways_out(self) -> Self:
        _at_most_all("p13", self.p13, "p14", self.p14)
        _at_most_all("p31", self.p31, "p32", self.p32)
        return self


def _at_most_all(one: str, one_percent: float, other: str, other_percent: float) -> None:
    if one_percent + other_percent > 100:
        raise ValueError(f"{one} and {other} are ways out of the same state: together at most 100")


class Slot(_Model):
    """Packets are held and released in bursts, as on a radio link.

    A burst begins a time after the first packet came that it is for, between the least and the most.
    """

    min_delay_ms: Milliseconds
    max_delay_ms: Milliseconds
    packets: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """At most so many in a burst; 0: any number."""
    bytes: Annotated[int, Field(ge=0, lt=1 << 31)] = 0

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        if isinstance(values, dict) and "min_delay_ms" in values:
            return {"max_delay_ms": values["min_delay_ms"], **values}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_delay_ms < self.min_delay_ms:
            raise ValueError("max_delay_ms is less than min_delay_ms")
        if self.max_delay_ms == 0:
            raise ValueError("a slot takes a delay: max_delay_ms is 0")
        return self


def _model_of(loss: Any) -> str | None:  # noqa: ANN401 - whatever was given
    """Which loss model is meant, so that complaints are about that one."""
    if not isinstance(loss, dict):
        return type(loss).__name__
    for model in (GilbertElliott, FourStates):
        if model.model_fields.keys() & loss.keys():
            return model.__name__
    return RandomLoss.__name__


Loss = Annotated[
    Annotated[RandomLoss, Tag("RandomLoss")]
    | Annotated[GilbertElliott, Tag("GilbertElliott")]
    | Annotated[FourStates, Tag("FourStates")],
    Discriminator(_model_of),
]


_TIME_DIGITS = 9
_OF_STREAMS = frozenset({"delay_ms", "jitter_ms", "rate_bits_per_s", "limit_packets", "seed"})
"""What can be done to a stream as a whole, or need not."""


class LinkState(_Model):
    """What happens to packets from one host to another; by default nothing."""

    delay_ms: Milliseconds = 0.0
    jitter_ms: Annotated[float, Field(ge=0, le=2000)] = 0.0
    """Around the delay: the most of it if ``uniform``, else its standard deviation. Nothing leaves before it came.

    The kernel takes no more than 2.1 s."""
    delay_correlation_percent: Percent = 0.0
    distribution: Distribution = "uniform"
    """Of the jitter around the delay."""
    loss: Loss | None = None
    duplicate_percent: Percent = 0.0
    duplicate_correlation_percent: Percent = 0.0
    reorder_percent: Percent = 0.0
    """So many packets leave at once and overtake those that are delayed."""
    reorder_correlation_percent: Percent = 0.0
    reorder_gap: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    """Only every so many; 0: any."""
    corrupt_percent: Percent = 0.0
    """One bit of so many packets is flipped."""
    corrupt_correlation_percent: Percent = 0.0
    rate_bits_per_s: Annotated[int, Field(ge=0, le=10**13)] = 0
    """0: as fast as it goes. Whole bytes per second count."""
    limit_packets: Annotated[int, Field(ge=1, lt=1 << 32)] = 1000
    """The queue's; what comes on top is lost."""
    slot: Slot | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    """Of everything random, where that is wanted the same again."""

    @field_validator("loss")
    @classmethod
    def _no_loss(cls, loss: Loss | None) -> Loss | None:
        return None if loss == RandomLoss(percent=0) else loss

    @field_validator("reorder_gap")
    @classmethod
    def _every_one(cls, gap: int) -> int:
        return 0 if gap == 1 else gap

    @field_validator("rate_bits_per_s")
    @classmethod
    def _some_rate(cls, rate: int) -> int:
        if 0 < rate < 8:
            raise ValueError("at least 8 bits per second, or 0 for no limit")
        return rate

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for field, what_for in _NEEDS:
            if getattr(self, field) not in {0, "uniform"} and not getattr(self, what_for):
                raise ValueError(f"{field} takes {what_for}, which is 0")
        if isinstance(self.loss, RandomLoss) and self.loss.percent == 0:
            raise ValueError("correlation_percent of a loss takes percent, which is 0")
        return self

    @property
    def is_clear(self) -> bool:
        """True if it leaves packets alone."""
        return not (
            self.delay_ms
            or self.loss
            or self.duplicate_percent
            or self.corrupt_percent
            or self.rate_bits_per_s
            or self.slot
        )

    @property
    def least_delay_s(self) -> float:
        """The delay of a packet that jitter delays least."""
        return round(max(0.0, self.delay_ms - self.jitter_ms) / 1000, _TIME_DIGITS)

    @property
    def spread_s(self) -> float:
        """By how much longer jitter may delay others."""
        return round((self.delay_ms + self.jitter_ms) / 1000 - self.least_delay_s, _TIME_DIGITS)

    def require_only(self, about: str, why: str, *also: str) -> None:
        """Require that nothing is set but delay, jitter and rate, and the fields that are named.

        Raises:
            Unsupported: ``why`` there is no such field.
        """
        for name in self.model_fields_set - _OF_STREAMS - set(also):
            if getattr(self, name) != LinkState.model_fields[name].default:
                raise Unsupported(f"{about}: no {name}: {why}")

    def bare(self) -> "LinkState":
        """The same without whatever a subclass adds."""
        return LinkState.model_construct(**{name: getattr(self, name) for name in LinkState.model_fields})

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """A state in words such as ``delay-ms=50`` and ``loss=1``; docs/links.md lists them.

        Raises:
            LocalError: an unknown word, no value for it, or values that do not go together.
        """
        from toolkit.network import words as language

        return language.from_words(cls, words)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What :meth:`__str__` has made, or a user wrote likewise: ``delay 50ms ± 5ms normal, loss 1%``.

        Raises:
            LocalError: as for :meth:`from_words`.
        """
        from toolkit.network import words as language

        return language.from_words(cls, language.words_of_text(text))

    def __str__(self) -> str:
        from toolkit.network import words as language

        return language.text(self)


_NEEDS = (
    ("jitter_ms", "delay_ms"),
    ("delay_correlation_percent", "jitter_ms"),
    ("distribution", "jitter_ms"),
    ("duplicate_correlation_percent", "duplicate_percent"),
    ("reorder_percent", "delay_ms"),
    ("reorder_correlation_percent", "reorder_percent"),
    ("reorder_gap", "reorder_percent"),
    ("corrupt_correlation_percent", "corrupt_percent"),
)
"""Fields that mean something only beside another; reordering lets packets overtake those that are delayed."""
