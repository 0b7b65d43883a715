"""The guest's part of the tests of RDMA: runs with soft-RoCE and prints a line of JSON for each check."""

import inspect
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial

from messenger.config import Config
from messenger.transport.rdma.stream import RdmaStream
from messenger.transport.rdma.transport import RdmaListener, RdmaTransport
from tests.messenger.transport import test_conformance as conformance
from tests.messenger.transport.rdma import devices, sessions
from tests.support import aio

CHECK_PATIENCE_S = 100.0
"""For one check: the machine may be emulated, on a busy machine."""


class SmallBuffers(RdmaTransport):
    """RDMA of the device rxe0, with few and small buffers."""

    def listen(self, host: str, port: int, config: Config) -> RdmaListener:
        return super().listen(host, port, self._small(config))

    async def dial(self, host: str, port: int, config: Config, *, source: str = "") -> RdmaStream:
        return await super().dial(host, port, self._small(config), source=source)

    @staticmethod
    def _small(config: Config) -> Config:
        for name, value in devices.OPTIONS.items():
            setattr(config, name, value)
        config.ms_async_rdma_device_name = "rxe0"
        config.ms_async_rdma_buffer_size = 4096
        config.rdma_queue_len = 4
        return config


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Every test of the conformance suite, with its arguments; then the sessions."""
    for name, test in vars(conformance).items():
        if name.startswith("test_"):
            (argument,) = inspect.signature(test).parameters
            for value in {"name": ["rdma"], "host": ["127.0.0.1", "::1"]}[argument]:
                yield f"{name.removeprefix('test_').replace('_', ' ')} [{value}]", partial(test, value)
    for name in sessions.CHECKS:
        yield name, partial(sessions.run, name)


def names() -> list[str]:
    """Return the names of all checks."""
    return [name for name, _ in checks()]


def main() -> None:
    warnings.simplefilter("error")
    aio.TEST_TIMEOUT_S = aio.CONDITION_TIMEOUT_S = CHECK_PATIENCE_S
    conformance.TRANSPORTS.clear()
    conformance.TRANSPORTS["rdma"] = SmallBuffers
    conformance.SETTLE_S = 0.5
    with devices.made():
        # The checks run in a fork: a device can be removed once no process has it open, and the last check leaves
        # streams that wait for an acknowledgement.
        if not (pid := os.fork()):
            run(set(sys.argv[1:]))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


def run(wanted: set[str]) -> None:
    for name, check in checks():
        if not wanted or name in wanted:
            run_check(name, check)


def run_check(name: str, check: Callable[[], None]) -> None:
    began_s = time.monotonic()
    try:
        check()
        error = ""
    except BaseException:  # noqa: BLE001 - reported by the test of that name
        error = traceback.format_exc()
    result = {"name": name, "error": error, "took_s": round(time.monotonic() - began_s, 2)}
    print(json.dumps(result), flush=True)  # noqa: T201 - what this is for


if __name__ == "__main__":
    main()
