"""The check of keys and nonces on hand-made histories."""


def test_links_with_different_keys_may_use_equal_nonces(story):
    for number in (1, 2):
        story.authenticate(number)
        story.usage("a", number, tx_nonces=1, rx_nonces=1)
        story.usage("b", number, tx_nonces=1, rx_nonces=1)
    assert (story.judge("nonce_unique").violations, story.judge("nonce_unique").note) == ([], "")


def test_the_same_secret_after_a_reconnect(story):
    story.authenticate(1)
    story.authenticate(2, key="k1", tx_nonce="ab1", rx_nonce="x")
    found = story.texts("nonce_unique")
    assert "a/2 has the key of a/1" in found
    assert "b/2 has the key of b/1" in found
    assert "a/2 sends with the nonces of a/1" in found


def test_both_directions_with_one_nonce(story):
    story.greet()
    story.auth("a", tx_nonce="x", rx_nonce="x")
    assert story.texts("nonce_unique") == ["a/1: both directions begin with the same nonce"]


def test_a_nonce_that_does_not_step(story):
    story.authenticate()
    for _ in range(3):
        story.pass_frame("a", "MESSAGE", length=160)
    story.usage("a", tx_nonces=6, rx_nonces=1)
    story.usage("b", tx_nonces=1, rx_nonces=1)
    assert story.texts("nonce_unique") == [
        "a/1: 4 frames were sent with 6 nonces, 7 are due",
        "b/1: 4 frames were received with 1 nonces, 7 are due",
    ]


def test_frames_of_msgr_2_0_are_sealed_by_one_operation(story):
    story.authenticate(revision=0)
    story.pass_frame("a", "MESSAGE", length=160)
    story.usage("a", tx_nonces=2, rx_nonces=1)
    assert story.judge("nonce_unique").ok


def test_crc_mode_has_no_nonces(story):
    for number in (1, 2):
        story.authenticate(number, mode="crc", key="", tx_nonce="", rx_nonce="")
        story.usage("a", number)
    assert story.judge("nonce_unique").ok


def test_secure_links_without_records(story):
    story.greet()
    result = story.judge("nonce_unique")
    assert result.ok
    assert (
        result.note == "a does not record the keys of 1 secure links; b does not record the keys of 1 secure links"
    )
