import threading
from pathlib import Path

import pytest

from messenger.errors import LocalError
from toolkit.doctor.catalogue import CAPABILITIES, find
from toolkit.machine import capability
from toolkit.machine.capability import Capability, Finding, install_command, not_installed, own_command, survey

PRESENT = Finding(available=True, detail="1.0")
HOPELESS = Finding(available=False, detail="no such hardware")
INSTALL = "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"


@pytest.fixture(autouse=True)
def root_on_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability.os, "geteuid", lambda: 0)
    monkeypatch.setattr(capability.shutil, "which", lambda name: f"/usr/bin/{name}")


def test_present_and_unavailable_findings_have_no_remedy() -> None:
    assert PRESENT.remedy is None
    assert HOPELESS.remedy is None
    assert install_command([PRESENT, HOPELESS]) == ""


def test_the_remedy_of_a_missing_program_is_its_package() -> None:
    assert not_installed("no tshark", ("tshark",)).remedy == "apt-get install -y tshark"


def test_one_command_adds_everything_each_package_and_step_once() -> None:
    missing = [
        not_installed("no ceph", ("ceph-common",)),
        not_installed("no docker", ("iptables", "docker.io"), "start it"),
        not_installed("no ceph-authtool", ("ceph-common",)),
        Finding(available=False, detail="", commands=("start it",)),
        Finding(available=False, detail="", commands=("pip install fastcrc",)),
        HOPELESS,
        Finding(available=True, detail="", packages=("tshark",)),
    ]
    assert install_command(missing) == (
        f"apt-get update && {INSTALL} ceph-common docker.io iptables && start it && pip install fastcrc"
    )


def test_install_command_starts_the_engine_before_steps_that_need_it() -> None:
    image = not_installed("no docker", ("docker.io",), "start it", "build an image")
    assert install_command(
        [PRESENT, image, not_installed("no docker", ("docker.io",), "start it", "begin a swarm")]
    ) == (f"apt-get update && {INSTALL} docker.io && start it && build an image && begin a swarm")


def test_own_command_is_found_by_the_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert own_command() == "msgrlab"
    monkeypatch.setattr(capability.shutil, "which", lambda _: None)
    monkeypatch.setattr(capability.sys, "executable", str(tmp_path / "bin" / "python"))
    assert own_command() == "msgrlab"  # nowhere beside the interpreter either
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "msgrlab").touch()
    assert own_command() == f"{tmp_path}/bin/msgrlab"
    monkeypatch.chdir(tmp_path)
    assert own_command() == "bin/msgrlab"
    monkeypatch.chdir("/")  # where supervisors are, but not their readers
    assert own_command() == f"{tmp_path}/bin/msgrlab"


def test_commands_alone_need_no_package_lists() -> None:
    assert install_command([Finding(available=False, detail="", commands=("start it",))]) == "start it"


def test_unprivileged_user_gets_an_error_with_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capability.os, "geteuid", lambda: 1000)
    command = install_command([not_installed("", ("tshark",))])
    assert command == f"sudo apt-get update && sudo {INSTALL} tshark"


def test_without_apt_get_the_package_is_named_without_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capability.shutil, "which", lambda _: None)
    finding = not_installed("no ceph-mon in PATH", ("ceph-mon",))
    assert finding.remedy is None
    assert finding.detail == "no ceph-mon in PATH; there is no apt-get here, Debian has it in ceph-mon"


def test_failing_probe_makes_the_capability_unavailable() -> None:
    def broken() -> Finding:
        raise RuntimeError("out of luck")

    finding = Capability("odd", "", broken).examine()
    assert not finding.available
    assert finding.detail == "probe failed: RuntimeError: out of luck"


def test_a_survey_examines_all_at_once_and_keeps_the_order() -> None:
    everybody = threading.Barrier(8, timeout=60)

    def probe() -> Finding:
        everybody.wait()
        return PRESENT

    rows = survey([Capability(str(number), "", probe) for number in range(8)])
    assert [(capability.name, finding) for capability, finding in rows] == [(n, PRESENT) for n in "01234567"]
    assert survey([]) == []


def test_capabilities_are_found_by_name() -> None:
    assert [find(capability.name) for capability in CAPABILITIES] == list(CAPABILITIES)
    with pytest.raises(LocalError, match=r"no capability 'ceph_mon'; known: python, .*ceph-mon, "):
        find("ceph_mon")
