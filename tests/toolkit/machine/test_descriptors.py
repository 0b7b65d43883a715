"""Open files that a cluster takes, and the limits of this process."""

import resource

import pytest

from toolkit.errors import Unsupported
from toolkit.machine.descriptors import check_room


def test_check_room_accepts_up_to_the_hard_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    check_room(hard, "a mesh", "--backend netns")
    with pytest.raises(
        Unsupported, match=rf"^a mesh needs [\d,]+ open files, .* ulimit -Hn {hard + 1}, or --backend netns$"
    ):
        check_room(hard + 1, "a mesh", "--backend netns")
