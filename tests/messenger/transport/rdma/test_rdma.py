"""The transport over RDMA: records, options, and in a machine with soft-RoCE its streams and sessions."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.config import Config
from messenger.errors import DecodeError, LocalError
from messenger.messenger import Messenger
from messenger.transport.rdma import verbs
from messenger.transport.rdma.record import RECORD_BYTES, Record, can_begin
from tests.messenger.transport.rdma.guest import names
from tests.support.guests import PATIENCE_S, in_guest
from toolkit.machine import vm

in_machine = in_guest("pyverbs", "iproute2")


@pytest.fixture(scope="module")
def results(guest: vm.Machine) -> dict[str, Any]:
    done = guest.run_module("tests.messenger.transport.rdma.guest", timeout_s=PATIENCE_S)
    found = {(result := json.loads(line))["name"]: result["error"] for line in done.stdout.splitlines()}
    return found | {"all": f"{done.stderr}\nexit code {done.code}"}


@in_machine
@pytest.mark.parametrize("name", names())
def test_in_a_machine_with_soft_roce(results: dict[str, Any], name: str) -> None:
    assert results.get(name, f"did not run: {results['all']}") == ""


@in_machine
def test_guest_prints_only_the_results_and_exit_code_0(results: dict[str, Any]) -> None:
    assert results["all"] == "\nexit code 0"


# ---- without a machine

bits = st.integers(0, (1 << 32) - 1)
records = st.builds(Record, st.integers(0, 0xFFFF), bits, bits, bits, st.binary(min_size=16, max_size=16))


@given(records)
def test_records_come_back_as_they_were(record: Record) -> None:
    raw = record.encode()
    assert len(raw) == RECORD_BYTES
    assert can_begin(raw)
    assert Record.decode(raw) == Record.decode(raw[:-1].upper() + b"\0") == record


@given(st.binary(max_size=RECORD_BYTES + 1))
def test_other_bytes_are_no_record(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="no record of a queue pair"):
        Record.decode(raw)


@pytest.mark.parametrize("banner", [b"ceph v2\n\x10\x00", b"ceph v027"])
def test_a_banner_is_no_beginning_of_a_record(banner: bytes) -> None:
    assert not can_begin(banner)


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("ms_type", "rdma", "give async\\+posix or async\\+rdma"),
        ("rdma_queue_len", 0, "give 1 or more"),
        ("rdma_retries", 8, "give 7 or less"),
        ("rdma_rnr_retries", 8, "give 7 or less"),
        ("ms_async_rdma_sl", 16, "give 15 or less"),
    ],
)
def test_options_that_mean_nothing_are_refused(option: str, value: object, remedy: str) -> None:
    with pytest.raises(LocalError, match=f"{option} = {value!r}: {remedy}"):
        Config(**{option: value})  # type: ignore[arg-type]


def test_a_machine_without_pyverbs_is_one_line_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> None:
        Messenger(config=Config(ms_type="async+rdma"))

    verbs.pyverbs.cache_clear()
    monkeypatch.setattr(verbs, "_DEBIAN", Path("/nowhere"))
    for name in [name for name in sys.modules if name.startswith("pyverbs.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    with pytest.raises(LocalError, match="apt-get install python3-pyverbs ibverbs-providers"):
        asyncio.run(make())
