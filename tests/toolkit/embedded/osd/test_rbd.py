"""The class ``rbd``, with the input of Ceph's own ``rbd`` (16.2.15) for an image ``img`` and its trash."""

import errno
from types import SimpleNamespace
from typing import cast

import pytest

from messenger.denc.codec import Decoder
from messenger.denc.entity import EntityName, EntityType
from messenger.denc.utime import UTime
from messenger.driver import Connection
from messenger.errors import DecodeError
from messenger.messages.osd_objects import ObjectLocator, PgId, ShardedPgId
from messenger.messages.osd_op import MOSDOp
from toolkit.embedded.osd.classes import METHODS, rbd, rbd_clones
from toolkit.embedded.osd.omap import Omap
from toolkit.embedded.osd.store import PlacementGroup, StoredObject
from toolkit.embedded.osd.watches import Watches
from toolkit.embedded.osd.work import Client, OpError, Work

MODULES = (rbd, rbd_clones)
"""They have the methods."""


NOW = UTime(1_700_000_000)
ADD = "03000000696d670c000000313030366531636663653132"
ID = "0c000000313030366531636663653132"
CREATE = "0000a00000000000160100000000000000150000007262645f646174612e313030366531636663653132ffffffffffffffff"
LIST = "000000000004000000000000"
LISTED = "0100000003000000696d670c000000313030366531636663653132"
HEAD = "feffffffffffffff"
TRASH_ADD = "0c0000003130303633393730333065370201190000000303000000696d67416c046b6cffbc0b416c046b6cffbc0b01"
TRASH_STATE = "0c0000003130303633393730333065370001"
TRASH_ID = "0c000000313030363339373033306537"


class Called:
    """An object that clients call methods on."""

    def __init__(self) -> None:
        self.stored: StoredObject | None = None

    def call(self, name: str, given: str = "") -> bytes | None:
        client = Client(EntityName(EntityType.CLIENT, 4100), cast(Connection, SimpleNamespace()))
        request = MOSDOp(ShardedPgId(PgId(1, 0)), 0, 1, 0, ObjectLocator(1), "o", [], NOW)
        work = Work(request, client, PgId(1, 0), 8, PlacementGroup(), Watches(), self.stored)
        output = METHODS["rbd", name].method(work, Decoder(bytes.fromhex(given)))
        self.stored = work.draft
        return output


def refusal(number: int):
    return pytest.raises(OpError, match=errno.errorcode[number])


def test_images_of_a_directory_are_found_by_name_and_by_id() -> None:
    directory = Called()
    directory.call("dir_add_image", ADD)
    with refusal(errno.EEXIST):
        directory.call("dir_add_image", ADD)
    assert directory.call("dir_list", LIST) == bytes.fromhex(LISTED)
    assert directory.call("dir_get_id", "03000000696d67") == bytes.fromhex(ID)
    assert directory.call("dir_get_name", ID) == bytes.fromhex("03000000696d67")
    directory.call("dir_rename_image", "03000000696d67" + "02000000" + b"im".hex() + ID)
    with refusal(errno.ENOENT):
        directory.call("dir_get_id", "03000000696d67")
    directory.call("dir_remove_image", "02000000" + b"im".hex() + ID)
    assert directory.call("dir_list", LIST) == bytes(4)


def test_an_image_has_one_id() -> None:
    image = Called()
    image.call("set_id", ID)
    with refusal(errno.EEXIST):
        image.call("set_id", ID)
    assert image.call("get_id") == bytes.fromhex(ID)


def test_header_contains_its_parameters() -> None:
    header = Called()
    header.call("create", CREATE)
    with refusal(errno.EEXIST):
        header.call("create", CREATE)
    assert header.call("get_size", HEAD) == bytes.fromhex("160000a00000000000")
    assert header.call("get_object_prefix") == bytes.fromhex("150000007262645f646174612e313030366531636663653132")
    assert header.call("get_features", HEAD + "01") == bytes.fromhex("01000000000000000100000000000000")
    assert header.call("get_snapcontext") == bytes(12)
    assert header.call("get_data_pool") == b"\xff" * 8
    header.call("set_size", "0000400100000000")
    assert header.call("get_size", HEAD) == bytes.fromhex("160000400100000000")
    with refusal(errno.ENOENT):
        header.call("get_size", "0100000000000000")  # of a snapshot
    with refusal(errno.ENOEXEC):
        header.call("get_stripe_unit_count")


def test_metadata_are_kept() -> None:
    header = Called()
    header.call("create", CREATE)
    header.call("metadata_set", "01000000010000006b0100000076")
    assert header.call("metadata_list", LIST) == bytes.fromhex("01000000010000006b0100000076")
    assert header.call("metadata_get", "010000006b") == bytes.fromhex("0100000076")
    header.call("metadata_remove", "010000006b")
    assert header.call("metadata_list", LIST) == bytes(4)


def test_images_go_through_the_trash() -> None:
    trash = Called()
    trash.call("trash_add", TRASH_ADD)
    with refusal(errno.EEXIST):
        trash.call("trash_add", TRASH_ADD)
    assert trash.call("trash_get", TRASH_ID)[-1:] == b"\1"
    trash.call("trash_state_set", TRASH_STATE)
    assert trash.call("trash_get", TRASH_ID).hex() == TRASH_ADD[len(TRASH_ID) : -2] + "00"
    with refusal(errno.ESTALE):
        trash.call("trash_state_set", TRASH_ID + "0203")
    trash.call("trash_remove", TRASH_ID)
    assert trash.call("trash_list", LIST) == bytes(4)


@pytest.mark.parametrize("value", [b"", bytes(7), b"\xff" * 9])
def test_a_header_whose_values_are_no_numbers_is_refused_or_read_as_far_as_a_number_goes(value: bytes) -> None:
    header = Called()
    header.stored = StoredObject(omap=Omap({"op_features": value, "features": value, "snap_seq": value}))
    if len(value) < 8:
        with pytest.raises(DecodeError):
            header.call("op_features_get")
    else:
        assert header.call("op_features_get") == value[:8]
