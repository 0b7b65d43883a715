"""Speaking with the kernel about networks."""

import asyncio

import pytest

from toolkit.machine.rtnetlink import rtnetlink

pytestmark = pytest.mark.needs("netns")


def test_rtnetlink_works_inside_an_event_loop() -> None:
    async def in_a_notebook() -> list[int]:
        with rtnetlink() as route:
            found = list(route.link_lookup(ifname="lo"))
        assert asyncio.get_running_loop().is_running()
        await asyncio.sleep(0)
        return found

    assert asyncio.run(in_a_notebook()) == [1]
