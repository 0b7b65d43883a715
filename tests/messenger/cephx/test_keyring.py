import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messenger.cephx.keyring import Keyring, KeyringEntry
from messenger.cephx.keys import CryptoKey
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.utime import UTime
from messenger.errors import LocalError
from tests.support.refusals import read_or_refused

TEXT = "AQAA8VNlAAAAABAAAAECAwQFBgcICQoLDA0ODw=="
KEY = CryptoKey.from_base64(TEXT)
ADMIN = AuthName(EntityType.CLIENT, "admin")
MON = AuthName(EntityType.MON, "")


def one_entry(options: str) -> KeyringEntry:
    return Keyring.parse(f"[client.admin]\n{options}").entries[ADMIN]


def test_as_ceph_authtool_writes_it() -> None:
    caps = '\tcaps mon = "allow *"\n\tcaps osd = "allow rwx"\n'
    text = f"[mon.]\n\tkey = {TEXT}\n[client.admin]\n\tkey = {TEXT}\n{caps}"
    keyring = Keyring.parse(text)
    assert keyring.entries == {
        MON: KeyringEntry(KEY),
        ADMIN: KeyringEntry(KEY, {"mon": "allow *", "osd": "allow rwx"}),
    }
    assert keyring.key(ADMIN) == KEY
    assert keyring.format() == text


def test_handwritten_keyring_is_parsed() -> None:
    text = f"""
# people write
; all sorts of things
[client.admin]   # here
 key={TEXT}   ; the key
\tcaps_mon\t=  allow r # bare
caps   osd = 'allow "x"'
 caps mds = "a # b ; c" # quoted
 caps_mgr = "allow \\"x\\" \\\\ \\
y"
auid = 18446744073709551615
"""
    entry = Keyring.parse(text.replace("\n", "\r\n")).entries[ADMIN]
    assert entry.key == KEY
    assert entry.caps == {
        "mon": "allow r",
        "osd": 'allow "x"',
        "mds": "a # b ; c",
        "mgr": 'allow "x" \\ y',
    }


def test_sections_of_one_name_merge() -> None:
    other = "AQAA8VNlAAAAABAAAQECAwQFBgcICQoLDA0ODw=="
    keyring = Keyring.parse(f"[mon.]\nkey = {other}\n[mon.]\nkey = {TEXT}\ncaps mon = x\n")
    assert keyring.entries == {MON: KeyringEntry(KEY, {"mon": "x"})}


@pytest.mark.parametrize("text", [TEXT, f"{TEXT}\n", f"# mine\n\n  {TEXT}\n"])
def test_keyfile(text: str) -> None:
    keyring = Keyring.parse(text)
    assert keyring.key(ADMIN) == keyring.key(MON) == KEY
    assert keyring.format() == f"{TEXT}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"key = {TEXT}", "k:1: option before the first"),
        (f"\n[client.admin]\nkey {TEXT}", "k:3: unknown option; known: key = BASE64, caps SERVICE = TEXT"),
        ("[mon.]\nkey", "k:2: neither a"),
        ("[client.admin\n", "k:1: neither a"),
        ("[admin]\n", "k:1: entity name 'admin' is not TYPE.ID, as in client.admin"),
        ("[clint.admin]\n", "k:1: unknown entity type 'clint'; known: mon, mds"),
        ("[mon.]\nkye = 1", "k:2: unknown option"),
        ("[mon.]\nCaps mon = 1", "k:2: unknown option"),
        ("[mon.]\ncaps = 1", "k:2: unknown option"),
        ("[mon.]\nkey = AQ", "k:2: key is not base64"),
        ("[mon.]\nkey =", "k:2: key is base64 of something else"),
        ('[mon.]\n\ncaps mon = "allow', "k:3: the value is not one closed quoted text"),
        ('[mon.]\ncaps mon = "a" b', "k:2: the value is not one closed quoted text"),
        ('[mon.]\ncaps mon = "' + "\\" * 5000, "k:2: the value is not one closed quoted text"),
        ('[mon.]\ncaps mon = "a\\"', "k:2: the value is not one closed quoted text"),
        ("AQ\n", "k:1: key is not base64"),
        (f"{TEXT}\n{TEXT}\n", "k:1: option before the first"),
    ],
)
def test_errors_name_file_and_line(text: str, message: str) -> None:
    with pytest.raises(LocalError) as raised:
        Keyring.parse(text, source="k")
    assert str(raised.value).startswith(message)
    assert TEXT.rstrip("=") not in str(raised.value)


def test_unknown_entity_lists_the_known_ones() -> None:
    keyring = Keyring({ADMIN: KeyringEntry(KEY), MON: KeyringEntry(KEY)}, source="/etc/k")
    with pytest.raises(LocalError, match=r"^/etc/k: no entity osd\.0; it has mon\., client\.admin$"):
        keyring.key(AuthName(EntityType.OSD, "0"))
    with pytest.raises(LocalError, match="it has none"):
        Keyring.parse("").key(ADMIN)


def test_entry_without_key() -> None:
    keyring = Keyring.parse("[mon.]\ncaps mon = x\n")
    with pytest.raises(LocalError, match=r"mon\. has no key"):
        keyring.key(MON)
    assert Keyring.parse(keyring.format()) == keyring


def test_key_of_an_unsupported_type_does_not_spoil_the_rest() -> None:
    newer = CryptoKey(77, bytes(32)).to_base64()
    keyring = Keyring.parse(f"[client.new]\nkey = {newer}\n[client.admin]\nkey = {TEXT}\n")
    assert keyring.key(ADMIN) == KEY
    assert keyring.key(AuthName(EntityType.CLIENT, "new")).type == 77


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "keyring"
    with pytest.raises(LocalError, match=r"keyring: No such file"):
        Keyring.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LocalError, match="keyring:1: not a keyring: byte 0xff is not text in UTF-8"):
        Keyring.load(path)
    path.write_text(f"[mon.]\nkey = {TEXT}\nfoo\n")
    with pytest.raises(LocalError, match=f"^{path}:3: "):
        Keyring.load(str(path))
    path.write_text(f"[mon.]\nkey = {TEXT}\n")
    assert Keyring.load(path).key(MON) == KEY


U32 = st.integers(0, (1 << 32) - 1)
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=12)
ENTRIES = st.builds(
    KeyringEntry,
    st.builds(CryptoKey, st.just(1), st.binary(min_size=16, max_size=16), st.builds(UTime, U32, U32)),
    st.dictionaries(st.sampled_from(["mon", "osd", "mds", "mgr"]), PRINTABLE),
)
IDS = st.from_regex(r"[a-z0-9._-]{0,9}", fullmatch=True)
NAMES = st.builds(AuthName, st.sampled_from([EntityType.CLIENT, EntityType.OSD, EntityType.MON]), IDS)


@given(st.dictionaries(NAMES, ENTRIES, max_size=4))
def test_roundtrip(entries: dict[AuthName, KeyringEntry]) -> None:
    assert Keyring.parse(Keyring(entries).format()).entries == entries


@given(st.text(alphabet="[]mon.=#;\"'\\ \t\nkeycapsAQ", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    keyring = read_or_refused(lambda: Keyring.parse(text), LocalError)
    assert keyring is None or Keyring.parse(keyring.format()).entries == keyring.entries


@pytest.mark.needs("ceph-authtool")
def test_real_ceph_authtool_both_ways(tmp_path: Path) -> None:
    def authtool(*args: str | Path) -> str:
        return subprocess.run(["ceph-authtool", *args], check=True, capture_output=True, text=True).stdout

    theirs = tmp_path / "theirs"
    caps = 'allow rwx pool=a, allow "b"'
    authtool("-C", theirs, "-g", "-n", "mon.")
    authtool(theirs, "-g", "-n", "client.admin", "--cap", "osd", caps, "--cap", "mon", "allow *")
    keyring = Keyring.load(theirs)
    assert keyring.entries[ADMIN].caps == {"osd": caps, "mon": "allow *"}
    for name in ("mon.", "client.admin"):
        printed = authtool(theirs, "-p", "-n", name).strip()
        assert keyring.key(AuthName.parse(name)).to_base64() == printed
    assert keyring.format() == theirs.read_text()

    ours = tmp_path / "ours"
    ours.write_text(Keyring({**keyring.entries, AuthName(EntityType.OSD, "0"): KeyringEntry(KEY)}).format())
    assert authtool("-p", "-n", "osd.0", ours).strip() == TEXT
    assert Keyring.parse(authtool("-l", ours)) == Keyring.parse(ours.read_text())
