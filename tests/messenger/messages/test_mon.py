from uuid import UUID

import pytest

from messenger.denc.codec import Decoder, Encoder
from messenger.denc.features import CLIENT_FEATURES
from messenger.messages.auth import MAuth
from messenger.messages.mon import (
    SUBSCRIBE_ONETIME,
    MMonCommand,
    MMonGetVersionReply,
    MMonSubscribe,
    Subscription,
)


def encoded(payload) -> bytes:
    encoder = Encoder()
    payload.encode(encoder, CLIENT_FEATURES)
    return encoder.getvalue()


def test_subscribe_vector():
    """The front of the second MESSAGE frame of docs/protocol.md §10."""
    payload = MMonSubscribe({"monmap": Subscription()}, "host")
    assert encoded(payload).hex() == ("01000000060000006d6f6e6d617000000000000000000004000000686f7374")


def test_subscriptions_are_encoded_in_name_order():
    some = {"osdmap": Subscription(5, SUBSCRIBE_ONETIME), "config": Subscription()}
    other = dict(reversed(some.items()))
    assert encoded(MMonSubscribe(some)) == encoded(MMonSubscribe(other))


@pytest.mark.parametrize("version", [1, 2])
def test_subscribe_had_no_hostname_before_version_3(version):
    front = encoded(MMonSubscribe({"osdmap": Subscription(5, 1)}))[:-4]
    payload = MMonSubscribe.decode(Decoder(front), version, CLIENT_FEATURES)
    assert payload == MMonSubscribe({"osdmap": Subscription(5, 1)}, "")


def test_get_version_reply_had_no_oldest_version_before_version_2():
    front = encoded(MMonGetVersionReply(1, 2, 3))[:-8]
    assert MMonGetVersionReply.decode(Decoder(front), 1, CLIENT_FEATURES) == MMonGetVersionReply(1, 2, 0)


def test_command_layout():
    front = encoded(MMonCommand(UUID(int=1), ["{}"]))
    assert front.hex() == "00" * 8 + "ffff" + "00" * 8 + "00" * 15 + "01" + "01000000" + "02000000" + "7b7d"


def test_the_login_of_a_kernel_ends_without_an_epoch():
    front = encoded(MAuth(2, b"key", 5))[:-4]
    assert MAuth.decode(Decoder(front), 0, CLIENT_FEATURES) == MAuth(2, b"key", 0)
