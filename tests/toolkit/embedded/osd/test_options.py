"""Options of an embedded OSD, as ``ceph tell`` shows and sets them."""

import errno
import random

import pytest

from messenger.denc.address import AddrVec
from messenger.denc.entity import EntityName, EntityType
from messenger.endpoint import Endpoint
from toolkit.embedded.osd.options import OptionError, OsdOptions


def options() -> OsdOptions:
    """The options of a messenger without sockets."""
    addrs = AddrVec.parse("v2:127.0.0.1:6800/1")
    endpoint = Endpoint(EntityName(EntityType.OSD, 0), addrs, rng=random.Random(1))
    return OsdOptions(endpoint.config, endpoint.configure)


def test_options_are_shown_as_texts() -> None:
    found = options()
    assert found.get("ms_inject_socket_failures") == "0"
    assert found.get("ms_initial_backoff") == "0.200000"
    assert found.get("ms_crc_data") == "true"
    assert found.all().keys() >= {"ms_inject_delay_type", "ms_crc_header", "max_queued_bytes"}


def test_options_are_set_from_texts() -> None:
    found = options()
    assert found.set("ms_inject_socket_failures", "1K") == "ms_inject_socket_failures = '1000' "
    found.inject(["--ms-inject-delay-probability=0.5", "--ms_inject_delay_type", "osd client"])
    found.inject(["--ms_crc_data false --max_queued_bytes 1000000"])
    names = ("ms_inject_socket_failures", "ms_inject_delay_probability", "ms_inject_delay_type", "ms_crc_data")
    assert [found.get(name) for name in names] == ["1000", "0.500000", "osd client", "false"]
    assert found.get("max_queued_bytes") == "1000000"


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["--nonsense", "3"], errno.ENOENT),
        (["--osd_max_backfills", "3"], errno.EINVAL),
        (["--ms_inject_socket_failures", "x"], errno.EINVAL),
        (["--ms_inject_delay_probability", "2"], errno.EINVAL),
        (["--ms_type", "async+rdma"], errno.EINVAL),
        (["--ms_inject_socket_failures"], errno.EINVAL),
        (["ms_inject_socket_failures", "3"], errno.EINVAL),
        (["--ms_inject_delay_type 'osd"], errno.EINVAL),
        (["--ms_inject_socket_failures", "5", "--nonsense", "3"], errno.ENOENT),
    ],
)
def test_wrong_arguments_change_nothing(words: list[str], number: int) -> None:
    found = options()
    before = found.all()
    with pytest.raises(OptionError) as refused:
        found.inject(words)
    assert refused.value.errno == number
    assert found.all() == before
