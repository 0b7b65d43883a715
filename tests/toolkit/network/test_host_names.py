"""Host names in addresses."""

import pytest

from messenger.errors import LocalError
from toolkit.network.host_names import numeric


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", "127.0.0.1"),
        ("v1:localhost:6789/5", "v1:127.0.0.1:6789/5"),
        ("10.1.2.3:3300", "10.1.2.3:3300"),
        ("[::1]:3300", "[::1]:3300"),
        ("[v2:10.1.2.3:3300,v1:10.1.2.3:6789]", "[v2:10.1.2.3:3300,v1:10.1.2.3:6789]"),
        ("-", "-"),
    ],
)
def test_numeric_resolves_host_names_and_keeps_the_rest(text: str, address: str) -> None:
    assert numeric(text) == address


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(LocalError, match=r"no host 'no\.such\.host\.invalid' is known"):
        numeric("v2:no.such.host.invalid:3300")
