"""Rules as options: settings, profiles, and the pages that describe them."""

from pathlib import Path

import pytest

from messenger.config import Config
from messenger.denc.address import AddrVec
from messenger.errors import LocalError
from messenger.rules import DEFAULT_RULES, PROFILES, SETTINGS, rules_of
from tests.support.node import new_node

DOCS = Path(__file__).parents[3] / "docs"


def test_every_rule_has_settings_and_its_default_is_the_first() -> None:
    assert {name: settings[0] for name, settings in SETTINGS.items()} == {
        name: getattr(DEFAULT_RULES, name) for name in SETTINGS
    }
    assert all(len(settings) > 1 for settings in SETTINGS.values())


@pytest.mark.parametrize(("option", "setting"), [(name, value) for name in SETTINGS for value in SETTINGS[name]])
def test_every_setting_can_be_chosen(option: str, setting: str) -> None:
    assert getattr(Config(**{option: setting}), option) == setting  # type: ignore[arg-type]


@pytest.mark.parametrize("option", SETTINGS)
def test_another_setting_is_refused_by_name(option: str) -> None:
    with pytest.raises(LocalError, match=rf"^{option} = 'perhaps': give one of {', '.join(SETTINGS[option])}$"):
        Config(**{option: "perhaps"})  # type: ignore[arg-type]


def test_rules_change_while_a_messenger_runs() -> None:
    endpoint = new_node().endpoint
    endpoint.configure(skipped_seq="fault")
    assert endpoint.config.skipped_seq == "fault"
    with pytest.raises(LocalError, match=r"^skipped_seq = 'never'"):
        endpoint.configure(skipped_seq="never")
    assert endpoint.config.skipped_seq == "fault"
    assert endpoint.addrs == AddrVec.parse("v2:10.0.0.1:6801/1")


@pytest.mark.parametrize("implementation", PROFILES)
def test_a_profile_sets_rules_otherwise_than_by_default(implementation: str) -> None:
    rules = rules_of(implementation)
    assert rules
    for name, setting in rules.items():
        assert setting in SETTINGS[name][1:]
    config = Config.like(implementation)
    assert {name: getattr(config, name) for name in SETTINGS} == {
        name: rules.get(name, SETTINGS[name][0]) for name in SETTINGS
    }


def test_options_count_more_than_the_profile() -> None:
    config = Config.like("kernel", skipped_seq="accept", ms_max_backoff=1.0)
    assert (config.skipped_seq, config.server_wait, config.ms_max_backoff) == ("accept", "fault", 1.0)


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(LocalError, match=r"^no rules of 'heron'; known: classic, crimson, kernel$"):
        Config.like("heron")


def test_a_profile_that_was_given_out_is_the_callers() -> None:
    rules_of("kernel").clear()
    assert rules_of("kernel")


@pytest.mark.parametrize("option", SETTINGS)
def test_every_rule_and_setting_has_its_words_in_the_docs(option: str) -> None:
    (section,) = [
        part
        for part in (DOCS / "disputes.md").read_text(encoding="utf-8").split("\n## ")
        if f"`{option}`" in part.split("\n")[0]
    ]
    for setting in SETTINGS[option]:
        assert f"`{setting}`" in section, f"{option}: nothing about {setting}"
