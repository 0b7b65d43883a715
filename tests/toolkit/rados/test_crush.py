"""CRUSH: the example of docs/protocol.md §10, and crushtool's answers for maps of every kind."""

import hashlib
import re
import subprocess
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.denc.codec import Encoder
from messenger.errors import DecodeError, LocalError
from toolkit.rados.crush import IN, do_rule
from toolkit.rados.crush_ln import crush_ln, tables
from toolkit.rados.crush_map import ITEM_NONE, Alg, Bucket, ChooseArg, CrushMap, CrushStep, Rule, RuleOp, Tunables

TAKE_ROOT, EMIT = CrushStep(RuleOp.TAKE, -1), CrushStep(RuleOp.EMIT)
MODERN = Tunables(0, 0, 50, 1, 1, 1, 54, 1)
MAPPED = re.compile(r"CRUSH rule (\d+) x (\d+) \[(.*)\]")


def straw2(bucket_id: int, kind: int, items: dict[int, float]) -> Bucket:
    weights = tuple(int(weight * IN) for weight in items.values())
    return Bucket(bucket_id, kind, Alg.STRAW2, 0, sum(weights), tuple(items), weights)


def rule(*steps: CrushStep) -> Rule:
    return Rule(0, 1, 1, 10, (TAKE_ROOT, *steps, EMIT))


EXAMPLE = CrushMap(
    max_devices=6,
    max_buckets=4,
    max_rules=3,
    buckets={
        -1: straw2(-1, 11, {-2: 3.0, -3: 1.5, -4: 4.0}),
        -2: straw2(-2, 1, {0: 1.0, 1: 2.0}),
        -3: straw2(-3, 1, {2: 1.0, 3: 0.5}),
        -4: straw2(-4, 1, {4: 1.0, 5: 3.0}),
    },
    rules={
        0: rule(CrushStep(RuleOp.CHOOSELEAF_FIRSTN, 0, 1)),
        1: rule(
            CrushStep(RuleOp.SET_CHOOSELEAF_TRIES, 5),
            CrushStep(RuleOp.SET_CHOOSE_TRIES, 100),
            CrushStep(RuleOp.CHOOSELEAF_INDEP, 0, 1),
        ),
        2: rule(CrushStep(RuleOp.CHOOSE_INDEP, 0, 0)),
    },
    type_names={0: "osd", 1: "host", 11: "root"},
    names={-1: "default", -2: "h0", -3: "h1", -4: "h2", **{osd: f"osd.{osd}" for osd in range(6)}},
    rule_names={0: "firstn", 1: "indep", 2: "flat"},
    tunables=MODERN,
    class_map={0: 1},
    class_names={1: "ssd"},
    class_bucket={-1: {1: -9}},
    choose_args={-1: {-2: ChooseArg(((1, 2), (3, 4)), (7, 8)), -3: ChooseArg()}},
)
REWEIGHTED = [IN, IN, IN, IN // 2, 0, IN]


def encoded(crush: CrushMap) -> bytes:
    encoder = Encoder()
    crush.encode(encoder)
    return encoder.getvalue()


@pytest.mark.parametrize(
    ("rule_id", "expected"),
    [
        (0, "502 521 502 521 503 502 512 152"),
        (1, "512 521 521 512 513 521 512 152"),
        (2, "501 521 215 512 501 520 521 120"),
    ],
)
def test_the_example(rule_id, expected):
    chosen = [do_rule(EXAMPLE, rule_id, x, 3, REWEIGHTED) for x in range(8)]
    assert ["".join(map(str, osds)) for osds in chosen] == expected.split()


def test_the_logarithm():
    _, _, lower = tables()
    digest = hashlib.sha256(b"".join(pack("<Q", value) for value in lower)).hexdigest()
    assert digest == "56fecbea65b1d35d0d20f0327d783a870652a56356e9a5326b6ab16d6c31b6ca"
    checks = {0: 0, 1: 0x100000000000, 0xFF: 0x800000000000, 0x1234: 0xC2FB9E09EC18, 0x8000: 0xF0002E2A60A0}
    checks |= {0xFFFE: 0xFFFFFD61AD10, 0xFFFF: 0xFFFFF0000000}
    assert {u: crush_ln(u) for u in checks} == checks


def test_rules_that_cannot_choose():
    assert do_rule(EXAMPLE, 9, 1, 3, REWEIGHTED) == []
    assert do_rule(EXAMPLE, 0, 1, 3, [0] * 6) == []
    assert do_rule(EXAMPLE, 1, 1, 3, []) == [ITEM_NONE] * 3
    multi_step = CrushMap(rules={0: Rule(0, 4, 1, 10, ())})
    with pytest.raises(LocalError, match="MSR"):
        do_rule(multi_step, 0, 1, 3, [])


# ---- the codec


def test_example_map_survives_encode_and_decode():
    assert CrushMap.decode(encoded(EXAMPLE)) == EXAMPLE


def test_truncated_anywhere():
    image = encoded(EXAMPLE)
    endings = set()
    for size in range(len(image)):
        try:
            CrushMap.decode(image[:size])
        except DecodeError:
            continue
        endings.add(size)
    assert len(endings) == 8  # before each of six groups of tunables, of the classes, and of choose_args


@given(st.integers(0, len(encoded(EXAMPLE)) - 1), st.binary(min_size=1, max_size=4))
def test_mutated_maps_decode_or_are_refused_and_choose_or_not(position, patch):
    image = bytearray(encoded(EXAMPLE))
    image[position : position + len(patch)] = patch
    try:
        crush = CrushMap.decode(image)
    except DecodeError:
        return
    if crush.tunables.choose_total_tries < 1000 and crush.tunables.choose_local_fallback_tries < 1000:
        crush.tunables.choose_local_tries %= 100
        crush.tunables.chooseleaf_vary_r %= 10
        for rule_id in list(crush.rules):
            if all(abs(step.arg1) < 1000 for step in crush.rules[rule_id].steps) and crush.rules[rule_id].type < 4:
                assert len(do_rule(crush, rule_id, 1, 3, REWEIGHTED)) <= 3


def test_buckets_that_contain_each_other_are_refused():
    looped = CrushMap(max_buckets=2, buckets={-1: straw2(-1, 2, {-2: 1}), -2: straw2(-2, 1, {-1: 1})})
    with pytest.raises(DecodeError, match="contain each other"):
        CrushMap.decode(encoded(looped))


@pytest.mark.parametrize("image", [b"\1\0\1\0", bytes.fromhex("00000100 ffffff7f 00000000 00000000")])
def test_decode_refuses_invalid_maps(image):
    with pytest.raises(DecodeError):
        CrushMap.decode(image)


# ---- crushtool

needs_crushtool = pytest.mark.needs("ceph-mon")  # ceph-base, which has it, comes with every daemon
LEGACY = "--set-choose-local-tries 2 --set-choose-local-fallback-tries 5 --set-choose-total-tries 19"
LEGACY += " --set-chooseleaf-descend-once 0 --set-chooseleaf-vary-r 0 --set-chooseleaf-stable 0"
HAMMER = "--set-choose-local-tries 0 --set-choose-local-fallback-tries 0 --set-choose-total-tries 50"
HAMMER += " --set-chooseleaf-descend-once 1 --set-chooseleaf-vary-r 4 --set-chooseleaf-stable 0"
LOCAL = HAMMER.replace("--set-choose-local-tries 0", "--set-choose-local-tries 3")
LOCAL = LOCAL.replace("--set-choose-total-tries 50", "--set-choose-total-tries 3")
INDEP_RULE = """
rule indep {{
    id 1
    type erasure
    min_size 1
    max_size 10
    step set_chooseleaf_tries 5
    step take root
    step choose indep {first} type rack
    step chooseleaf indep 2 type host
    step emit
}}
rule twice {{
    id 2
    type replicated
    min_size 1
    max_size 10
    step take root
    step chooseleaf firstn 1 type rack
    step emit
    step take root
    step choose firstn -1 type osd
    step emit
}}
"""


CHANGED = {0: 0, 1: 0, 2: 0, 3: 0, 7: IN // 2, 11: IN // 10, 20: 0}
"""Weights of OSDs; the first three are a host."""


def crushtool(*arguments: str) -> str:
    return subprocess.run(["crushtool", *arguments], capture_output=True, text=True, check=True).stdout


@needs_crushtool
@pytest.mark.parametrize("alg", ["uniform", "list", "tree", "straw", "straw2"])
@pytest.mark.parametrize("tunables", [LEGACY, HAMMER, LOCAL, ""], ids=["legacy", "hammer", "local", "default"])
def test_the_same_as_crushtool(tmp_path: Path, alg: str, tunables: str) -> None:
    built, text, path = (str(tmp_path / name) for name in ("built", "text", "map"))
    crushtool("-o", built, "--build", "--num_osds", "36", "host", alg, "3", "rack", alg, "4", "root", alg, "0")
    rules = INDEP_RULE.format(first=0 if alg == "straw2" else 2)
    Path(text).write_text(crushtool("-d", built) + rules)
    crushtool("-c", text, "-o", path, *tunables.split())
    if tunables:
        crushtool("-i", path, "-o", path, *tunables.split())
    crush = CrushMap.decode(Path(path).read_bytes())
    assert {bucket.alg.name.lower() for bucket in crush.buckets.values()} == {alg}
    weights = [IN] * 36
    for osd, weight in CHANGED.items():
        weights[osd] = weight
    reweights = [word for osd in CHANGED for word in ("--weight", str(osd), f"{weights[osd] / IN:.6f}")]
    weights = [weight if weight in (0, IN) else int(float(f"{weight / IN:.6f}") * IN) for weight in weights]
    shown = crushtool(
        "-i", path, "--test", "--show-mappings", "--num-rep", "4", "--min-x", "0", "--max-x", "127", *reweights
    )
    lines = MAPPED.findall(shown)
    assert len(lines) == 3 * 128
    for rule_id, x, osds in lines:
        expected = [int(osd) for osd in osds.split(",")] if osds else []
        assert do_rule(crush, int(rule_id), int(x), 4, weights) == expected, (rule_id, x)


@needs_crushtool
def test_maps_of_crushtool_survive_decode_and_encode(tmp_path: Path) -> None:
    path = tmp_path / "map"
    crushtool("-o", str(path), "--build", "--num_osds", "7", "host", "straw", "2", "root", "list", "0")
    assert encoded(CrushMap.decode(path.read_bytes())) == path.read_bytes()
    (tmp_path / "ours").write_bytes(encoded(EXAMPLE))
    assert "step chooseleaf indep 0 type host" in crushtool("-d", str(tmp_path / "ours"))
