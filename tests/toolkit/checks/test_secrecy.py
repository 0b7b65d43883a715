"""The checks of plain text and of modes on hand-made histories."""

import pytest


def test_sealed_frames(story):
    story.authenticate()
    story.pass_frame("a", "MESSAGE", length=240)
    assert (story.judge("no_plaintext").violations, story.judge("no_plaintext").note) == ([], "")


@pytest.mark.parametrize("length", [44, 80, 173])
def test_a_frame_that_is_not_sealed(story, length):
    story.authenticate()
    story.pass_frame("a", "ACK", length=length)
    assert story.texts("no_plaintext") == [
        f"a/1: ACK of {length} bytes is sent unsealed on a secure link",
        f"b/1: ACK of {length} bytes is taken unsealed on a secure link",
    ]


def test_frames_of_msgr_2_0_are_shorter(story):
    story.authenticate(revision=0)
    story.pass_frame("a", "ACK", length=80)
    assert story.judge("no_plaintext").ok


def test_crc_mode_is_plain(story):
    story.authenticate(mode="crc")
    story.pass_frame("a", "ACK", length=44)
    assert story.judge("no_plaintext").ok


def test_a_canary_on_the_wire(story):
    story.add_record("network", "leak", a="a", b="b", detail="payload of tid 3")
    assert story.texts("no_plaintext") == ["plain text between a and b: payload of tid 3"]


def test_a_session_without_a_signature(story):
    story.greet()
    story.auth("b")
    story.pass_frame("a", "CLIENT_IDENT")
    story.pass_frame("a", "MESSAGE")
    assert story.texts("no_plaintext") == ["b/1: CLIENT_IDENT is taken where AUTH_SIGNATURE is due"]


def test_link_fault_on_a_missing_signature_is_no_violation(story):
    story.greet()
    story.auth("b")
    story.take_frame("b", "CLIENT_IDENT")
    story.fault("b", reason="UNEXPECTED_FRAME")
    assert story.judge("no_plaintext").ok


def test_missing_signature(story):
    story.greet()
    story.auth("a")
    story.pass_frame("a", "CLIENT_IDENT")
    assert story.texts("no_plaintext") == ["a/1: CLIENT_IDENT is sent where AUTH_SIGNATURE is due"]


def test_missing_records_of_authentication_are_noted(story):
    story.greet()
    assert story.judge("no_plaintext").note == (
        "b does not record how its peers authenticate; a does not record how its peers authenticate"
    )


def agree(story, a, b, **fields):
    story.greet()
    story.auth("b", modes=b, **fields)
    story.auth("a", modes=a, **fields)
    story.sign_and_go_on()


def test_the_best_mode(story):
    agree(story, "secure crc", "crc secure", mode="secure")
    assert story.judge("no_downgrade").ok


def test_a_worse_mode(story):
    agree(story, "secure crc", "crc secure", mode="crc")
    assert story.texts("no_downgrade") == ["a/1 is in mode crc, but both sides would have secure first"]


def test_a_mode_that_is_not_allowed(story):
    agree(story, "secure", "crc secure", mode="crc")
    assert "a/1 is in mode crc; allowed is secure" in story.texts("no_downgrade")


@pytest.mark.parametrize(("name", "other"), [("mode", "crc"), ("method", "none"), ("cipher", "aes256k")])
def test_both_sides_know_the_same(story, name, other):
    story.greet()
    story.auth("b", **{name: other})
    story.auth("a")
    story.sign_and_go_on()
    assert any(f"{name} is " in text for text in story.texts("no_downgrade"))
