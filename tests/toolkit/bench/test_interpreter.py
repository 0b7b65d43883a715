"""The build of a Python, by its ``sysconfig``."""

import sysconfig

import pytest

from messenger.form import MESSENGER
from toolkit.bench.interpreter import Interpreter
from toolkit.cli.main import run as msgrlab
from toolkit.form import TOOLKIT


def built(monkeypatch: pytest.MonkeyPatch, prefix: str = "/opt/python", **variables: object) -> Interpreter:
    monkeypatch.setattr(sysconfig, "get_config_var", variables.get)
    monkeypatch.setattr("sys.base_prefix", prefix)
    return Interpreter.this()


@pytest.mark.parametrize(
    ("variables", "build", "is_optimised"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations'"}, "profile-guided optimisation", True),
        (
            {"CONFIG_ARGS": "'--enable-optimizations' '--with-lto=full'"},
            "profile-guided and link-time optimisation",
            True,
        ),
        ({"CONFIG_ARGS": "'--prefix=/opt/python'"}, "no profile-guided optimisation", False),
        ({}, "no profile-guided optimisation", False),
        ({"CONFIG_ARGS": "'--enable-optimizations'", "Py_DEBUG": 1}, "a debug build", False),
    ],
)
def test_builds(
    *, variables: dict[str, object], build: str, is_optimised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = built(monkeypatch, **variables)
    assert (python.build, python.is_optimised) == (build, is_optimised)
    assert python.caption == f"{python.name}, {build}"
    assert bool(python.warning) is not is_optimised


def test_python_of_debian_counts_as_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_scheme_names", lambda: ("posix_prefix", "deb_system"))
    assert built(monkeypatch, "/usr").is_optimised
    assert not built(monkeypatch, "/usr/local").is_optimised


def test_a_table_of_a_python_that_is_not_optimised_has_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = Interpreter("CPython 3.11.7", "no profile-guided optimisation", is_optimised=False)
    monkeypatch.setattr(Interpreter, "this", lambda: slow)
    assert msgrlab(["bench", "--core", "--sizes", "64", "--modes", "crc", "--seconds", "0.001"]) == 0
    out, err = capsys.readouterr()
    forms = f"{MESSENGER.form} form of the messenger, {TOOLKIT.form} form of the decoder"
    assert out.endswith(f"CPython 3.11.7, no profile-guided optimisation; {forms}\n")
    assert err == f"msgrlab: {slow.warning}\n"
