"""Programs of an image on hosts of a cluster."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from toolkit.cluster.backends.base import Host
from toolkit.cluster.ceph.programs import out_of_image
from toolkit.errors import Unsupported


def test_containers_have_the_programs_of_their_own_image() -> None:
    host = cast(Host, SimpleNamespace(name="mon", is_container=True))
    with pytest.raises(Unsupported, match="mon: containers have the programs of their image: --backend process"):
        out_of_image(host, Path("/image"), ["rados"])
