"""``msgrlab images`` from the command line."""

import json

import pytest

from toolkit.cli.main import UNSUPPORTED, USAGE_ERROR, run


@pytest.fixture
def no_docker(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")


@pytest.mark.parametrize("verb", ["build", "remove"])
def test_an_unknown_image_is_one_line(verb, capsys):
    assert run(["images", verb, "ceph:quincy"]) == USAGE_ERROR
    out, err = capsys.readouterr()
    known = "node, ceph:nautilus, ceph:pacific, ceph:reef, ceph:tentacle, vm, vm:trixie, vm:uml"
    assert (out, err) == ("", f"msgrlab: no image 'ceph:quincy'; known: {known}\n")


@pytest.mark.parametrize("arguments", [["build", "node"], ["build", "ceph:reef"], ["remove", "ceph:reef"]])
def test_missing_docker_is_one_error_line(no_docker, arguments, tmp_path, capsys):
    assert run(["images", *arguments, "--root", str(tmp_path)]) == UNSUPPORTED
    assert capsys.readouterr().err.startswith(
        "msgrlab: Docker at unix:///nowhere/docker.sock does not run (No such"
    )
    assert list(tmp_path.iterdir()) == []


def test_directories_are_listed_without_docker(no_docker, tmp_path, capsys):
    (tmp_path / "ceph-reef" / "etc").mkdir(parents=True)
    (tmp_path / "ceph-reef" / "etc" / "msgrlab-image").write_text("18.2.7\n")
    assert run(["images", "list", "--root", str(tmp_path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["images"] == [
        {"name": "ceph:reef", "what": f"{tmp_path}/ceph-reef", "size_bytes": None, "version": "18.2.7"}
    ]
    assert "does not run" in listed["docker"]
    assert run(["images", "list", "--root", str(tmp_path)]) == 0
    assert "18.2.7" in capsys.readouterr().out


def test_a_directory_is_made_without_docker(no_docker, tmp_path, capsys):
    (tmp_path / "ceph-reef" / "etc").mkdir(parents=True)
    (tmp_path / "ceph-reef" / "etc" / "msgrlab-image").write_text("18.2.7\n")
    assert run(["images", "build", "ceph:reef", "--directory", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(f"ceph:reef: {tmp_path}/ceph-reef (0.")
    assert run(["images", "build", "node", "--directory", "--root", str(tmp_path)]) == USAGE_ERROR
    assert "leave out --directory" in capsys.readouterr().err


def test_images_remove_deletes_a_directory_without_docker(no_docker, tmp_path):
    (tmp_path / "ceph-reef" / "etc").mkdir(parents=True)
    assert run(["images", "remove", "ceph:reef", "--root", str(tmp_path)]) == UNSUPPORTED
    assert not (tmp_path / "ceph-reef").exists()


def test_unknown_context_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):  # which the command changes, and this undoes
        monkeypatch.setenv(name, "")
    assert run(["images", "build", "node", "--context", "moon"]) == USAGE_ERROR
    assert capsys.readouterr().err.startswith("msgrlab: no Docker context 'moon'")
