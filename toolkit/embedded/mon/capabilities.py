"""The syntax of capabilities: what ``ceph auth`` takes for each service, as monitors of Ceph 16.2 do.

Embedded daemons do not enforce capabilities. A wrong text is refused nevertheless, as on a real cluster.
"""

import re

_WORD = r"""(?:"[^"]+"|'[^']+'|[\w./-]+)"""
_PATTERN = r"""(?:"[^"]*"|'[^']*'|[\w./-]+\*?|\*)"""
"""A name, or the beginning of one with an asterisk."""
_RWX = r"(?:rw?x?|wx?|x)"
_ANY = r"(?:\*|all)"
_NETWORK = r"(?:\s+network\s+[0-9A-Fa-f.:]+(?:/\d+)?)?"
_PROFILE = rf"profile[\s=]+{_WORD}"
_WITH = rf"(?:\s+with(?:\s+{_WORD}(?:=|\s+prefix\s+|\s+regex\s+){_WORD})+)?"
_COMMAND = rf"command[\s=]+{_WORD}{_WITH}"
_SERVICE = rf"service[\s=]+{_WORD}\s+{_RWX}"

_MON = (
    rf"(?:allow\s+(?:{_ANY}|{_COMMAND}|{_SERVICE}|{_PROFILE}|{_RWX}(?:\s+fsname={_WORD})?)|{_PROFILE}){_NETWORK}"
)

_OSD_ACCESS = rf"(?:{_ANY}|{_RWX}(?:\s+class-read)?(?:\s+class-write)?|class-read(?:\s+class-write)?|class-write)"
_POOL = rf"pool[\s=]+{_WORD}"
_PLACE = rf"(?:\s+{_POOL})?(?:\s+namespace[\s=]+{_PATTERN})?(?:\s+object_prefix[\s=]+{_WORD})?"
_TAG = rf"\s+tag\s+{_WORD}\s+{_PATTERN}\s*=\s*{_PATTERN}"
_CLASS = rf"class\s+{_WORD}(?:\s+{_WORD})?"
_OSD = (
    rf"(?:allow(?:\s+{_CLASS}|\s+{_OSD_ACCESS}(?:(?:\s+namespace[\s=]+{_PATTERN})?{_TAG}|{_PLACE})|{_PLACE}\s+{_OSD_ACCESS})|"
    rf"{_PROFILE}(?:\s+{_POOL})?(?:\s+namespace[\s=]+{_PATTERN})?){_NETWORK}"
)

_FILES = (
    rf"(?:\s+fsname={_WORD})?(?:\s+path={_PATTERN})?(?:\s+root_squash)?(?:\s+uid=\d+(?:\s+gids=\d+(?:,\d+)*)?)?"
)
_MDS = rf"allow(?:\s+(?:{_ANY}|rwf?p?s?|r){_FILES}{_NETWORK})?"

_MGR_PROFILE = r"profile[\s=]+(?:crash|mds|osd|rbd-read-only|rbd|read-only)(?![\w-])"
_MODULE = rf"module[\s=]+{_WORD}{_WITH}\s+{_RWX}"
_MGR = (
    rf"(?:allow\s+(?:{_ANY}|{_COMMAND}|{_SERVICE}|{_MODULE}|{_MGR_PROFILE}|{_RWX})|"
    rf"{_MGR_PROFILE}(?:\s+{_WORD}={_WORD})*){_NETWORK}"
)

_GRANTS = {
    service: re.compile(rf"\s*{grant}\s*(?=[,;]|$)")
    for service, grant in {"mon": _MON, "osd": _OSD, "mds": _MDS, "mgr": _MGR}.items()
}
"""A grant of a service: what stands between two separators."""


def mistake(service: str, text: str) -> str:
    """Return what is wrong with the capabilities for a service; nothing if they are well-formed."""
    grant = _GRANTS.get(service)
    if grant is None:
        return f"unknown cap type '{service}'"
    place = 0
    while match := grant.match(text, place):
        if match.end() == len(text):
            return ""
        place = match.end() + 1
    rest = text[place:].strip() or text
    return f"{service} capability parse failed, stopped at '{rest}' of '{text}'"
