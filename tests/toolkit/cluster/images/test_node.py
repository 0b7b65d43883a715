"""The node's image: its name, what goes into it, and that it is made of nothing but that."""

import re
import shutil
import subprocess
import sys
import tarfile

import pytest

import toolkit
from messenger.errors import LocalError
from toolkit.cluster.images import docker, node
from toolkit.machine.docker_engine import connected


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """A source that a test may change."""
    for package in ("messenger", "toolkit"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text('"""A package."""\n')
    shutil.copytree(node._recipe(), tmp_path / "clusters/images/node")
    monkeypatch.setattr(node, "_SOURCE", tmp_path)
    monkeypatch.setattr(node, "tag", node.tag.__wrapped__)
    return tmp_path


def test_tag_depends_on_the_content_of_the_image(checkout):
    first = node.tag()
    assert first.startswith("msgrlab/node:")
    (checkout / "toolkit/__pycache__").mkdir()
    (checkout / "toolkit/__pycache__/x.pyc").write_bytes(b"\0")
    assert node.tag() == first
    (checkout / "toolkit/new.py").write_text("")
    names = [first, node.tag()]
    for part in ("Dockerfile", "requirements.txt"):
        (checkout / "clusters/images/node" / part).write_text("other\n")
        names.append(node.tag())
    assert len(set(names)) == len(names)


def test_a_context_has_the_recipe_the_source_and_wheels(checkout, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "lz4-1.whl").write_bytes(b"wheel")
    context = node._context(wheels)
    with tarfile.open(fileobj=context) as tar:
        assert tar.getnames() == [
            "Dockerfile",
            "msgrlab",
            "pip.txt",
            "requirements.txt",
            "source/messenger/__init__.py",
            "source/toolkit/__init__.py",
            "wheels/lz4-1.whl",
        ]
        assert tar.getmember("msgrlab").mode == 0o755
        assert {member.mtime for member in tar} == {0}
    assert node._context(wheels).getvalue() == context.getvalue()


def test_missing_recipe_is_an_error(checkout):
    shutil.rmtree(checkout / "clusters")
    package = toolkit.__file__.rpartition("/")[0]
    assert package
    with pytest.raises(LocalError, match=r"clusters/images/node is not in .*not installed completely"):
        node._recipe()


def test_node_image_locks_all_dependencies_that_a_node_imports():
    """In a Python that has nothing else installed, by the names of the wheels' top-level modules."""
    script = """
import sys
import toolkit.cluster.node
from importlib.metadata import packages_distributions
known = packages_distributions()
print(*sorted({name.lower().replace("_", "-") for top in {m.partition(".")[0] for m in sys.modules}
               for name in known.get(top, ())}))
"""
    installed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    locked = re.findall(r"^([a-z0-9-]+)==", (node._recipe() / "requirements.txt").read_text("ascii"), re.MULTILINE)
    assert set(installed) <= {*locked, "msgrlab", "setuptools"}


@pytest.mark.needs("docker")
def test_the_image_runs_a_node():
    tag = node.build(announce=lambda _: None)
    assert tag == node.tag()
    with connected() as engine:
        assert docker.has(engine, tag)
        assert node.exists(engine)
        options = {"network_mode": "none", "cap_drop": ["ALL"], "remove": True, "init": True}
        output = engine.containers.run(
            tag, ["python3", "-c", "import toolkit.cluster.node as n; print(n)"], **options
        )
    assert b"/opt/msgrlab/toolkit/cluster/node.py" in output


@pytest.mark.needs("docker")
def test_build_returns_an_existing_node_image():
    node.build(announce=lambda _: None)
    assert node.build(announce=pytest.fail) == node.tag()
