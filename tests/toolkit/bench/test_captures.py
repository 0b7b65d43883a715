"""Captures for measuring decoders: they are valid, have the expected messages, and are always the same."""

from pathlib import Path
from struct import Struct

import pytest

from messenger.cephx.exchange import ConMode
from toolkit.bench.captures import KEY_LOG, RECIPES, Recipe, write_capture
from toolkit.capture.formats import open_capture
from toolkit.dissect.direction import Direction
from toolkit.dissect.follow import LinkFollower
from toolkit.dissect.keys import KeyBook

MESSAGES = 128
PORTS = Struct(">HHII").unpack_from
SERVER_PORT = 6800
IP_AT, TCP_AT, PAYLOAD_AT = 14, 34, 54


def followers_of(path: Path) -> tuple[list[LinkFollower], list[str]]:
    """Follow every connection of a capture in which nothing is lost; also the tags of all frames."""
    book = KeyBook()
    book.add_key_log(KEY_LOG)
    links: dict[int, LinkFollower] = {}
    expected: dict[tuple[int, Direction], int] = {}
    tags = []
    with open_capture(path) as capture:
        for batch in capture:
            for _, _, _, packet in batch.packets():
                source, target, seq, _ = PORTS(packet, TCP_AT)
                direction = Direction.TO_SERVER if target == SERVER_PORT else Direction.TO_CLIENT
                port = source if direction is Direction.TO_SERVER else target
                payload = packet[PAYLOAD_AT:]
                assert expected.setdefault((port, direction), seq) == seq
                opens_or_ends = packet[TCP_AT + 13] & 0x03
                expected[port, direction] = (seq + len(payload) + bool(opens_or_ends)) % (1 << 32)
                link = links.setdefault(port, LinkFollower(book))
                tags += [frame.tag for frame in link.feed(direction, payload)]
    return list(links.values()), tags


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_capture_has_complete_links_and_the_requested_messages(recipe: Recipe, tmp_path: Path) -> None:
    path = tmp_path / "made.pcapng"
    messages = max(MESSAGES, recipe.connections)
    write_capture(recipe, path, messages)
    links, tags = followers_of(path)
    assert len(links) == recipe.connections
    for link in links:
        assert link.blind is None
        assert link.con_mode is recipe.mode
        assert [link.pending(direction) for direction in Direction] == [b"", b""]
    assert sum(tag in {"MSG", "MESSAGE"} for tag in tags) == messages
    assert tags.count("ACK") >= recipe.connections


@pytest.mark.parametrize("mode", [ConMode.CRC, ConMode.SECURE])
def test_the_same_recipe_makes_the_same_file(mode: ConMode, tmp_path: Path) -> None:
    recipe = next(recipe for recipe in RECIPES if recipe.mode is mode)
    for name in "ab":
        write_capture(recipe, tmp_path / name, MESSAGES)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_packets_have_the_length_of_the_recipe_and_right_ip_checksums(tmp_path: Path) -> None:
    recipe = RECIPES[0]
    path = tmp_path / "made.pcapng"
    write_capture(recipe, path, MESSAGES)
    lengths = []
    with open_capture(path) as capture:
        for batch in capture:
            for _, _, _, packet in batch.packets():
                lengths.append(len(packet))
                total = sum(Struct(">10H").unpack_from(packet, IP_AT))
                assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert max(lengths) == PAYLOAD_AT + recipe.segment_bytes == 1514


def test_scaled_recipes_are_whole_bursts() -> None:
    for recipe in RECIPES:
        bursts = recipe.connections * recipe.burst
        assert recipe.scaled(1) == pytest.approx(recipe.messages, abs=bursts)
        assert recipe.scaled(1e-9) == bursts
        assert recipe.scaled(0.5) % bursts == 0
