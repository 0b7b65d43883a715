"""Images of a Docker engine: built, pulled, imported and removed for real."""

import io
import tarfile
import uuid

import pytest

from messenger.errors import LocalError
from tests.support.docker import registry
from toolkit.cluster.images import ceph, debian, docker, names
from toolkit.cluster.images.archive import Suite
from toolkit.cluster.images.work import Work
from toolkit.errors import Unsupported
from toolkit.machine.docker_engine import connected

pytestmark = pytest.mark.needs("docker")


@pytest.fixture
def engine():
    with connected() as engine:
        yield engine


@pytest.fixture
def tag(engine):
    """Return the tag of an image that is removed with the test."""
    name = f"msgrlab/test:{uuid.uuid4().hex[:12]}"
    yield name
    if docker.has(engine, name):
        engine.api.remove_image(name)


@pytest.fixture
def release(monkeypatch, engine):
    """A release of Ceph whose image goes with the test."""
    name = f"t{uuid.uuid4().hex[:12]}"
    monkeypatch.setitem(debian.RELEASES, name, debian.Image(name, "sid", "1.2.3", "127.0.0.1:1/ceph/ceph:v1.2.3"))
    monkeypatch.setattr(names, "NAMES", (*names.NAMES, f"ceph:{name}"))
    yield name
    if docker.has(engine, ceph.tag(name)):
        engine.api.remove_image(ceph.tag(name))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "from-debian").write_text("package")
    return tmp_path / "root"


def files(engine, tag):
    """Names of the files in an image."""
    container = engine.api.create_container(tag, ["x"])
    try:
        packed = b"".join(engine.api.export(container["Id"]))
    finally:
        engine.api.remove_container(container["Id"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return set(tar.getnames())


def test_an_import_is_the_directory_and_a_label(engine, tag, root, tmp_path):
    (root / "dev").mkdir()
    (root / "dev" / "stray").write_text("")
    docker.import_directory(engine, root, tag, Work(tmp_path / "log"), {docker.LABEL: "test"})
    found = files(engine, tag)
    assert "etc/from-debian" in found
    assert "dev/stray" not in found
    config = engine.api.inspect_image(tag)["Config"]
    assert config["Labels"] == {docker.LABEL: "test"}
    assert any(value.startswith("PATH=/usr/local/sbin") for value in config["Env"])


def test_an_import_that_breaks_off_leaves_nothing(engine, tag, root, tmp_path):
    broken = Work(tmp_path / "log")
    with pytest.raises(LocalError, match=r"tar ended with exit code 2 in .*; what was said is in .*/log"):
        docker.import_directory(engine, root / "missing", tag, broken, {})
    assert not docker.has(engine, tag)


def test_failed_build_names_its_log(engine, tag, tmp_path):
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        recipe = b"FROM scratch\nCOPY missing /\n"
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(recipe)
        tar.addfile(entry, io.BytesIO(recipe))
    context.seek(0)
    with pytest.raises(LocalError, match=r"COPY.*missing.*; what was said is in .*/log"):
        docker.build(engine, context, tag, Work(tmp_path / "log"), {})
    assert not docker.has(engine, tag)


def test_ceph_comes_from_a_registry_that_answers(monkeypatch, engine, release, tmp_path):
    with registry("ceph/ceph", "v1.2.3") as stock:
        image = debian.Image(release, Suite("sid", "20260101T000000Z"), "1.2.3", stock)
        monkeypatch.setitem(debian.RELEASES, release, image)
        lines = []
        made = ceph.build(release, root=tmp_path, announce=lines.append)
        pulled = engine.api.inspect_image(made)["Config"]["Labels"][ceph.BASE_LABEL]
        engine.api.remove_image(pulled)
    assert lines == [
        f"making the image msgrlab/ceph:{release} of {stock}, or of Debian's packages if that is not to be had"
    ]
    assert "from-the-registry" in files(engine, made)
    assert engine.api.inspect_image(made)["Config"]["Labels"] == {
        docker.LABEL: f"ceph:{release}",
        ceph.VERSION_LABEL: "1.2.3",
        ceph.BASE_LABEL: pulled,
    }
    assert pulled.startswith(f"{stock.rpartition(':')[0]}@sha256:")
    assert ceph.build(release, root=tmp_path, announce=pytest.fail) == made


def test_fetch_of_a_pinned_image_verifies_its_digest(engine, tmp_path):
    work = Work(tmp_path / "log")
    with registry("ceph/ceph", "v1.2.3") as stock:
        pulled = docker.fetch("", stock, work)
        assert pulled is not None
        engine.api.remove_image(pulled)
        name, _, digest = pulled.partition("@")
        pinned = debian.Image("r", Suite("sid", "20260101T000000Z"), "1.2.3", stock, digest).pinned
        assert docker.fetch("", pinned, work) == pinned == pulled
        engine.api.remove_image(pulled)
        assert docker.fetch("", f"{name}@sha256:{'0' * 64}", work) is None
    assert f"{stock} is {pulled}" in (tmp_path / "log").read_text()


def test_ceph_image_is_built_from_debian_without_a_registry(engine, release, root, tmp_path):
    (root / "etc" / "msgrlab-image").write_text("1.2.4\n")
    root.rename(tmp_path / f"ceph-{release}")
    made = names.build(f"ceph:{release}", "", tmp_path, lambda _: None)
    assert "etc/from-debian" in files(engine, made)
    found = {image.name: image for image in names.in_docker()}
    assert (found[f"ceph:{release}"].what, found[f"ceph:{release}"].version) == (made, "1.2.4")
    assert [image.name for image in names.directories(tmp_path)] == [f"ceph:{release}"]
    names.require(f"ceph:{release}", engine)
    removed = names.remove(f"ceph:{release}", "", tmp_path)
    assert sorted(removed) == sorted([made, str(tmp_path / f"ceph-{release}")])
    with pytest.raises(Unsupported, match=f"no image {made}: msgrlab images build ceph:{release}"):
        names.require(f"ceph:{release}", engine)
