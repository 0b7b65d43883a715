"""The lock files are complete, have hashes, and keep to the bounds of the project."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS = PROJECT["dependency-groups"]
RUNTIME = PROJECT["project"]["dependencies"]
IMAGE = "clusters/images/node"
LOCKS = {
    "requirements/ci.txt": [*RUNTIME, *GROUPS["dev"]],
    "requirements/lowest.txt": [*RUNTIME, *GROUPS["dev"]],
    "requirements/runtime.txt": RUNTIME,
    "requirements/docs.txt": GROUPS["docs"],
    "requirements/compile.txt": GROUPS["compile"],
    "requirements/build.txt": GROUPS["build"],
    "requirements/supply.txt": GROUPS["supply"],
    f"{IMAGE}/requirements.txt": GROUPS["node"],
    f"{IMAGE}/pip.txt": GROUPS["installer"],
}
"""What each of them is for, as the project words it."""


def locked(path: str) -> Iterator[tuple[str, Version, int]]:
    """Name, version and number of hashes of everything in a lock; some have several versions, by Python's."""
    for entry in re.split(r"\n(?=\S)", (ROOT / path).read_text("ascii")):
        if not entry.startswith(("#", "--")):
            requirement = Requirement(entry.partition("\\")[0])
            ((_, version),) = ((each.operator, each.version) for each in requirement.specifier)
            yield canonicalize_name(requirement.name), Version(version), entry.count("--hash=sha256:")


def bounds() -> Iterator[Requirement]:
    yield from map(Requirement, RUNTIME + [each for group in GROUPS.values() for each in group])
    for line in (ROOT / "requirements/flaws.txt").read_text("ascii").splitlines():
        if line and not line.startswith("#"):
            yield Requirement(line.partition("#")[0])


@pytest.mark.parametrize("path", LOCKS)
def test_lock_has_every_requirement_with_a_hash(path: str) -> None:
    found = list(locked(path))
    assert [name for name, _, hashes in found if not hashes] == []
    assert {canonicalize_name(Requirement(each).name) for each in LOCKS[path]} <= {name for name, *_ in found}


@pytest.mark.parametrize("path", LOCKS)
def test_locked_versions_lie_within_the_bounds(path: str) -> None:
    specifiers = [(canonicalize_name(each.name), each.specifier) for each in bounds()]
    outside = [
        f"{name} {version}: {specifier}"
        for name, version, _ in locked(path)
        for bound, specifier in specifiers
        if bound == name and not specifier.contains(version)
    ]
    assert outside == []


def test_the_lowest_versions_are_those_that_the_project_allows() -> None:
    lowest = {name: version for name, version, _ in locked("requirements/lowest.txt")}
    for requirement in map(Requirement, RUNTIME):
        (bound,) = (Version(each.version) for each in requirement.specifier)
        assert lowest[canonicalize_name(requirement.name)].release[: len(bound.release)] == bound.release


def test_an_image_has_the_versions_that_are_tested() -> None:
    tested = {each[:2] for each in locked("requirements/ci.txt")}
    for path in (f"{IMAGE}/requirements.txt", "requirements/runtime.txt"):
        assert {each[:2] for each in locked(path)} <= tested


def test_site_is_built_with_the_tested_versions() -> None:
    tested = {name: version for name, version, *_ in locked("requirements/ci.txt")}
    other = {name: version for name, version, *_ in locked("requirements/docs.txt") if name in tested}
    assert len(other) > 20
    assert other.items() <= tested.items()


def test_each_lock_is_generated_and_installed_with_hashes() -> None:
    made = (ROOT / ".ci/lock").read_text("utf-8")
    assert [path for path in LOCKS if path not in made] == []
    assert "LOCKED=1" in (ROOT / ".ci/run").read_text("utf-8")
    assert "--require-hashes" in (ROOT / IMAGE / "Dockerfile").read_text("utf-8")
