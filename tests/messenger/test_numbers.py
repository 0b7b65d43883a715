"""Numbers that stand for something on the wire: each stands for one thing."""

import pkgutil
from enum import Enum
from importlib import import_module

import pytest

import messenger
from messenger.denc.features import Feature
from messenger.messages.osdmap import MapFlag
from messenger.messages.pool import PoolFlag

TWO_NAMES = {Feature}
"""Feature bits are reused once no peer has the old meaning."""


def enums() -> list[type[Enum]]:
    names = [module.name for module in pkgutil.walk_packages(messenger.__path__, "messenger.")]
    found = [value for name in names for value in vars(import_module(name)).values() if isinstance(value, type)]
    return sorted(
        {one for one in found if issubclass(one, Enum) and one.__members__}, key=lambda one: one.__qualname__
    )


@pytest.mark.parametrize("one", enums(), ids=lambda one: one.__qualname__)
def test_no_two_names_have_one_number(one: type[Enum]) -> None:
    twice = [name for name, member in one.__members__.items() if member.name != name]
    assert not twice or one in TWO_NAMES


@pytest.mark.parametrize("flags", [MapFlag, PoolFlag])
def test_each_flag_is_one_bit(flags: type[Enum]) -> None:
    assert all(int(flag.value).bit_count() == 1 for flag in flags)
