"""The site has every page, and the test on its first page passes."""

import re

import pytest

from docs.messages import page
from tests.test_tidy import ROOT, files

pytest_plugins = ["pytester"]

INDEX = ROOT / "docs/site/index.md"
START = (ROOT / "docs/start.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", START, re.DOTALL)
ELSEWHERE = re.compile(
    r"\.|build/|notebooks/|docs/site/|templates/|toolkit/|tests/|clusters/(?!README)|captures/(?!README)"
)
"""Lessons are listed by a pattern; what belongs to a part of the source is read there."""


def test_the_page_of_message_types_is_up_to_date() -> None:
    assert (ROOT / "docs/messages.md").read_text(encoding="utf-8") == page(), "run python docs/messages.py"


def test_the_site_lists_every_page_once() -> None:
    listed = [
        (INDEX.parent / re.sub(r".*<(.+)>", r"\1", line)).resolve().relative_to(ROOT).as_posix() + ".md"
        for block in re.findall(r"```{toctree}\n(.*?)```", INDEX.read_text(encoding="utf-8"), re.DOTALL)
        for line in block.splitlines()
        if "../" in line and "*" not in line
    ]
    pages = [path for path, _ in files("*.md") if not ELSEWHERE.match(path)]
    assert sorted(listed) == sorted(pages)


def test_the_test_of_the_first_page_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_sessions=PROGRAM)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    assert result.parseoutcomes() == {"passed": 3}
