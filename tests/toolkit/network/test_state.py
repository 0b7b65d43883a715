import pytest
from hypothesis import given
from pydantic import ValidationError

from messenger.errors import LocalError
from tests.support.link_states import link_states
from toolkit.network.state import FourStates, GilbertElliott, LinkState, RandomLoss, Slot
from toolkit.network.words import KNOWN_WORDS


@given(link_states())
def test_a_state_is_read_from_its_text(state: LinkState) -> None:
    assert LinkState.from_text(str(state)) == state


@given(link_states())
def test_a_state_is_read_from_its_json(state: LinkState) -> None:
    assert LinkState.model_validate_json(state.model_dump_json()) == state


def test_words() -> None:
    words = (
        "delay-ms=50 jitter-ms=5 distribution=normal delay-correlation=25% loss=1 loss-correlation=10 rate=10mbit"
    )
    assert LinkState.from_words(words.split()) == LinkState(
        delay_ms=50,
        jitter_ms=5,
        distribution="normal",
        delay_correlation_percent=25,
        loss=RandomLoss(percent=1, correlation_percent=10),
        rate_bits_per_s=10_000_000,
    )


def test_words_of_other_loss_models_and_slots() -> None:
    assert LinkState.from_words(["loss-to-bad=1", "loss-to-good=20"]).loss == GilbertElliott(
        to_bad_percent=1, to_good_percent=20
    )
    assert LinkState.from_words(["loss-p13=1", "loss-p31=20"]).loss == FourStates(p13=1, p31=20)
    assert LinkState.from_words(["slot-min-ms=3", "slot-packets=4"]).slot == Slot(
        min_delay_ms=3, max_delay_ms=3, packets=4
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no impairments", []),
        ("", []),
        ("delay 50ms", ["delay-ms=50"]),
        ("delay 50 ms ± 5 ms normal, loss 1 %", ["delay-ms=50", "jitter-ms=5", "distribution=normal", "loss=1"]),
        ("loss to-bad 1% to-good 20%, seed 7", ["loss-to-bad=1", "loss-to-good=20", "seed=7"]),
        ("slot 3ms..9ms packets 4, limit 50", ["slot-min-ms=3", "slot-max-ms=9", "slot-packets=4", "limit=50"]),
        ("delay 9ms, reorder 5% gap 3", ["delay-ms=9", "reorder=5", "reorder-gap=3"]),
        ("rate 1.5gbit", ["rate=1500000000"]),
    ],
)
def test_text(text: str, words: list[str]) -> None:
    assert LinkState.from_text(text) == LinkState.from_words(words)


def test_text_for_people() -> None:
    state = LinkState.from_words(["delay-ms=50", "jitter-ms=5", "loss=0.5", "rate=10mbit", "limit=30"])
    assert str(state) == "delay 50ms ± 5ms uniform, loss 0.5%, rate 10mbit, limit 30"
    assert str(LinkState()) == "no impairments"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["delai-ms=5"], "no 'delai-ms'; there is delay-ms"),
        (["loss=much"], "loss takes a number, not 'much'"),
        (["loss"], "loss takes a number, not ''"),
        (["delay-ms=5s"], "delay-ms takes a time in milliseconds, not '5s'"),
        (["rate=5kb"], "rate takes a rate such as 10mbit, not '5kb'"),
        (["limit=1.5"], "limit takes a whole number, not '1.5'"),
        (["loss=101"], "loss: Input should be less than or equal to 100"),
        (["loss=nan"], "loss: Input should be"),
        (["jitter-ms=3"], "jitter-ms needs delay-ms, which is 0"),
        (["delay-ms=3", "distribution=normal"], "distribution needs jitter-ms, which is 0"),
        (["reorder=5"], "reorder needs delay-ms, which is 0"),
        (["delay-ms=3", "reorder-gap=5"], "reorder-gap needs reorder, which is 0"),
        (["corrupt-correlation=5"], "corrupt-correlation needs corrupt, which is 0"),
        (["loss-p13=3", "loss-p31=80", "loss-p32=50"], "p31 and p32 are ways out of the same state"),
        (["loss=3", "loss-to-bad=80"], "loss: goes with another loss model"),
        (["slot-min-ms=5", "slot-max-ms=4"], "less than"),
        (["slot-min-ms=0"], "a slot needs a delay"),
        (["rate=7"], "at least 8 bits per second"),
        (["delay-ms=60001"], "delay-ms: Input should be less than or equal to 60000"),
    ],
)
def test_from_words_refuses_invalid_states(words: list[str], complaint: str) -> None:
    with pytest.raises(LocalError, match=r"^link: ") as refused:
        LinkState.from_words(words)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_text_that_ends_early_is_refused() -> None:
    for text in ("delay", "loss 1% correlation", "delay 5ms ±", "fog 5%"):
        with pytest.raises(LocalError, match=r"^link: "):
            LinkState.from_text(text)


def test_equal_meanings_are_equal() -> None:
    assert LinkState(loss=RandomLoss(percent=0)) == LinkState()
    assert LinkState(delay_ms=5, reorder_percent=5, reorder_gap=1) == LinkState(delay_ms=5, reorder_percent=5)


@pytest.mark.parametrize("word", KNOWN_WORDS)
def test_every_word_is_known_to_the_documentation(word: str, request: pytest.FixtureRequest) -> None:
    assert f"`{word}`" in (request.config.rootpath / "docs/links.md").read_text()


def test_clear() -> None:
    assert LinkState(seed=5, limit_packets=1).is_clear
    for words in ("delay-ms=1", "loss=1", "duplicate=1", "corrupt=1", "rate=1mbit", "slot-min-ms=1"):
        assert not LinkState.from_words([words]).is_clear


def test_bare_returns_a_plain_link_state() -> None:
    class Named(LinkState):
        name: str

    assert Named(name="a", delay_ms=5, loss=RandomLoss(percent=1)).bare() == LinkState(
        delay_ms=5, loss=RandomLoss(percent=1)
    )


def test_error_names_the_loss_model_of_the_fields() -> None:
    with pytest.raises(ValidationError) as refused:
        LinkState.model_validate({"loss": {"p13": 5, "p99": 5}})
    assert [error["loc"] for error in refused.value.errors()] == [("loss", "FourStates", "p99")]
