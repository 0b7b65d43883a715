"""Scenarios in files of a user's own."""

from pathlib import Path

import pytest

import toolkit
from messenger.errors import LocalError
from toolkit.cli.main import run as msgrlab
from toolkit.errors import Unsupported
from toolkit.scenarios.catalogue import find, select

HEAD = "from toolkit import Lab, scenario\n\n\n"
FROZEN = (
    HEAD
    + '''@scenario(cases={"briefly": {"frozen_s": 1.0}, "long": {"frozen_s": 60.0}}, processes=True)
def frozen_server(lab: Lab, frozen_s: float) -> None:
    """A frozen server gets every message once.

    It is frozen while messages are on their way to it.
    """
    lab.two("lossless_client", "stateful_server", "client.1", "mds.0")
    lab.freeze("b")
    lab.send("a", "b", count=3)
    lab.wait(1.0 if lab.real_time else frozen_s)
    lab.thaw("b")
    lab.expect_delivered("a", "b", 3)
    lab.settle()


@scenario
def too_few(lab: Lab) -> None:
    lab.two()
    lab.exchange(count=2)
    lab.expect_delivered("a", "b", 3, within_s=1)
'''
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.py").write_text(FROZEN)
    (tmp_path / "pyproject.toml").write_text('[tool.msgrlab]\nscenarios = ["scenarios"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("backend", ["sim", "local"])
def test_a_scenario_of_a_file_runs_on_any_backend(project: Path, backend: str) -> None:
    run = toolkit.run("scenarios/mine.py::frozen_server[briefly]", backend, mode="secure")
    assert run.passed, run.complaints
    again = f"msgrlab run 'scenarios/mine.py::frozen_server[briefly]' --backend {backend} --mode secure --seed 1"
    assert run.replay_command == again


@pytest.mark.parametrize("word", ["scenarios/mine.py", "scenarios/", "own", "*_*e*"])
def test_files_folders_and_the_project_are_selected(project: Path, word: str) -> None:
    chosen = [one for one in select(word) if one.file]
    assert [one.name for one in chosen] == ["frozen_server", "too_few"]
    assert chosen[0].title == "A frozen server gets every message once"
    assert chosen[0].description == "It is frozen while messages are on their way to it."
    assert chosen[1].title == "too few"
    assert select("all")[-2:] == chosen
    assert list(toolkit.catalogue().index[-2:]) == [one.id for one in chosen]


def test_scenario_is_found_by_name_from_a_subdirectory_of_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    assert msgrlab(["run", "frozen_server", "--jobs", "2"]) == 0
    assert find("too_few").id == f"{project}/scenarios/mine.py::too_few"


def test_a_failure_names_the_line_of_the_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert msgrlab(["run", "too_few", "--json"]) == 1
    assert '"scenarios/mine.py:23: expected within 1 s: 3 messages from a delivered at b; 2 were"' in (
        capsys.readouterr().out
    )


def test_run_accepts_an_undecorated_function_of_a_lab() -> None:
    @toolkit.scenario(ways=["v2-secure"], backends=["sim"])
    def pair(lab: toolkit.Lab) -> None:
        lab.two()
        lab.exchange()

    assert toolkit.run(pair, mode="secure").passed
    with toolkit.open_lab() as lab:
        pair(lab)
    with pytest.raises(Unsupported, match="pair cannot run on local: its file names other backends"):
        toolkit.run(pair, "local", mode="secure")
    with pytest.raises(LocalError, match="decorate it with @scenario"):
        toolkit.run(print)


def test_a_changed_file_is_read_again(project: Path) -> None:
    assert not toolkit.run("too_few").passed
    (project / "scenarios" / "mine.py").write_text(FROZEN.replace('"b", 3, within_s=1', '"b", 2, within_s=1'))
    assert toolkit.run("too_few").passed


def test_scenario_file_imports_modules_beside_it(project: Path) -> None:
    (project / "scenarios" / "beside_it.py").write_text(
        "def speak(lab):\n    lab.two()\n    lab.exchange()\n    1 / 0\n"
    )
    text = HEAD + "from beside_it import speak\n\n\n@scenario\ndef speaks(lab: Lab) -> None:\n    speak(lab)\n"
    (project / "scenarios" / "other.py").write_text(text)
    assert toolkit.run("speaks").failure == "scenarios/beside_it.py:4: ZeroDivisionError: division by zero"


MISTAKES = [
    ("def broken(:\n    pass\n", "mine.py:4: invalid syntax"),
    ("x = 1\nunknown_name\n", "mine.py:5: NameError: name 'unknown_name' is not defined"),
    ("raise SystemExit(1)\n", "mine.py:4: SystemExit: 1"),
    ("x = 1\n", "mine.py: no scenarios in it"),
    ("@scenario(backends=['simm'])\ndef x(lab): ...\n", "mine.py:4: scenario x: unknown backend 'simm'"),
    ("@scenario(ways=['v3'])\ndef x(lab): ...\n", "mine.py:4: scenario x: 'v3' is no way to run a scenario"),
    ("@scenario(colour=1)\ndef x(lab): ...\n", "mine.py:4: scenario x: .* unexpected keyword argument 'colour'"),
    ("@scenario(cases={'one': {'n': 1}})\ndef x(lab): ...\n", "mine.py:4: scenario x: .* case 'one': .* 'n'"),
    ("@scenario\ndef x(): ...\n", "mine.py:4: scenario x: it takes "),
    ("@scenario\nasync def x(lab): ...\n", "mine.py:4: scenario x: a scenario is a plain function"),
    ("@scenario\ndef x(lab): ...\n@scenario\ndef x(lab): ...\n", "mine.py:7: x is defined in line 5 already"),
]


@pytest.mark.parametrize(("body", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_file_and_line(project: Path, body: str, message: str) -> None:
    (project / "scenarios" / "mine.py").write_text(HEAD + body)
    with pytest.raises(LocalError, match=message) as caught:
        select("scenarios/mine.py")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.msgrlab\n", r"pyproject.toml: .*\(at line 1"),
        ("[tool.msgrlab]\nscenarios = 1\n", r"pyproject.toml: tool.msgrlab: give scenarios = \["),
        ('[tool.msgrlab]\nscenarios = ["away"]\n', "away: there is no such file"),
        ("", "no scenarios of your own: name a file of them"),
    ],
)
def test_a_mistake_of_the_project_is_one_line(project: Path, text: str, message: str) -> None:
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(LocalError, match=message):
        select("own")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "scenarios/mine.py::to_few",
            r"scenarios/mine.py has no scenario 'to_few'; it has frozen_server, too_few",
        ),
        ("scenarios/away.py::x", "scenarios/away.py: there is no such file"),
        ("to_few", "no scenario 'to_few'; near it: too_few"),
        ("frozen_server[x]", "frozen_server has no case 'x'; known: briefly, long"),
    ],
)
def test_select_names_missing_scenarios(project: Path, word: str, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        select(word)
