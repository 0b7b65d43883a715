"""Impairments of packets on a link, in one direction; the terms are those of Linux netem.

The model validates which fields go together and rejects the rest, so that neither the kernel nor the wire in user
space (docs/links.md) has to guess.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from toolkit.errors import Unsupported

Percent = Annotated[float, Field(ge=0, le=100)]
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]
Distribution = Literal["uniform", "normal", "pareto", "paretonormal"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class RandomLoss(_Model):
    """Independent losses, or losses correlated with the previous packet's."""

    percent: Percent
    correlation_percent: Percent = 0.0


class GilbertElliott(_Model):
    """Two states: a good one with few losses, and a bad one (netem ``loss gemodel``)."""

    to_bad_percent: Percent
    """p: probability of a transition from good to bad."""
    to_good_percent: Percent = 100.0
    """r: probability of a transition from bad to good."""
    bad_loss_percent: Percent = 100.0
    """1-h: probability of loss in the bad state."""
    good_loss_percent: Percent = 0.0
    """1-k: probability of loss in the good state."""


class FourStates(_Model):
    """Bursts and gaps, each with its own losses (netem ``loss state``).

    The states are 1, packets arrive in a gap between bursts; 2, packets arrive within a burst; 3, packets are lost
    within a burst; 4, a packet is lost in a gap. ``p13`` is the probability of a transition from 1 to 3, and so
    on; 4 always leads to 1.
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
    """Packets are collected and sent in bursts, as on a radio link.

    A burst starts between ``min_delay_ms`` and ``max_delay_ms`` after the arrival of its first packet.
    """

    min_delay_ms: Milliseconds
    max_delay_ms: Milliseconds
    packets: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """Most packets in a burst; 0 for no limit."""
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
            raise ValueError("a slot needs a delay: max_delay_ms is 0")
        return self


def _model_of(loss: Any) -> str | None:  # noqa: ANN401 - whatever was given
    """Return the name of the loss model that the keys belong to, so that errors are about that model."""
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
"""Fields that can be applied to a byte stream, or do not matter for it."""


class LinkState(_Model):
    """Impairments of packets from one host to another; none by default."""

    delay_ms: Milliseconds = 0.0
    jitter_ms: Annotated[float, Field(ge=0, le=2000)] = 0.0
    """Variation of the delay: its maximum if ``uniform``, else its standard deviation. A negative delay counts as
    0. The kernel accepts at most 2.1 s."""
    delay_correlation_percent: Percent = 0.0
    distribution: Distribution = "uniform"
    """Distribution of the jitter."""
    loss: Loss | None = None
    duplicate_percent: Percent = 0.0
    duplicate_correlation_percent: Percent = 0.0
    reorder_percent: Percent = 0.0
    """Probability that a packet is sent at once and overtakes delayed ones."""
    reorder_correlation_percent: Percent = 0.0
    reorder_gap: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    """Only every n-th packet can be reordered; 0 for all."""
    corrupt_percent: Percent = 0.0
    """Probability that one bit of a packet is flipped."""
    corrupt_correlation_percent: Percent = 0.0
    rate_bits_per_s: Annotated[int, Field(ge=0, le=10**13)] = 0
    """Rate limit, rounded down to whole bytes per second; 0 for no limit."""
    limit_packets: Annotated[int, Field(ge=1, lt=1 << 32)] = 1000
    """Most packets in the queue; further ones are lost."""
    slot: Slot | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    """Seed of all random decisions, to make them repeatable; a random one unless given."""

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
                raise ValueError(f"{field} needs {what_for}, which is 0")
        if isinstance(self.loss, RandomLoss) and self.loss.percent == 0:
            raise ValueError("correlation_percent of a loss needs percent, which is 0")
        return self

    @property
    def is_clear(self) -> bool:
        """True if packets are not impaired."""
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
        """Least delay with jitter, in seconds."""
        return round(max(0.0, self.delay_ms - self.jitter_ms) / 1000, _TIME_DIGITS)

    @property
    def spread_s(self) -> float:
        """Difference between the greatest and the least delay, in seconds."""
        return round((self.delay_ms + self.jitter_ms) / 1000 - self.least_delay_s, _TIME_DIGITS)

    def require_only(self, about: str, why: str, *also: str) -> None:
        """Check that only delay, jitter, rate and the named fields are set.

        Raises:
            Unsupported: another field is set; ``why`` is the reason in the message.
        """
        for name in self.model_fields_set - _OF_STREAMS - set(also):
            if getattr(self, name) != LinkState.model_fields[name].default:
                raise Unsupported(f"{about}: no {name}: {why}")

    def bare(self) -> "LinkState":
        """Return a LinkState without the fields of a subclass."""
        return LinkState.model_construct(**{name: getattr(self, name) for name in LinkState.model_fields})

    @classmethod
    def from_words(cls, words: Iterable[str]) -> Self:
        """Parse words such as ``delay-ms=50`` and ``loss=1``; docs/links.md lists them.

        Raises:
            LocalError: an unknown word, a wrong value, or values that do not go together.
        """
        from toolkit.network import words as language

        return language.from_words(cls, words)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the format of :meth:`__str__`: ``delay 50ms ± 5ms normal, loss 1%``.

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
"""Fields that require another one; reordering requires a delay, because packets overtake delayed ones."""
