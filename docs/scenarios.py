"""Writes docs/scenarios.md, all verbs of a lab with an example each, from toolkit/lab and docs/verbs.

Run ``python docs/scenarios.py`` after a verb or an example has changed. An example is the function of that name in
docs/verbs; tests/test_scenarios_page.py runs them.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType

from toolkit.lab.lab import Lab

FOLDER = Path(__file__).parent / "verbs"
GROUPS = {
    "nodes": "Nodes",
    "traffic": "Sessions and messages",
    "faults": "Faults",
    "life": "Shutdown, clocks, dispatching, limits",
    "queries": "Queries about the run",
    "raw": "Scripted peers",
    "auth": "Authentication",
}
"""The groups of verbs by their files, in the order of the page."""
PREMISES = {"node", "two", "raw", "monitor"}
"""Verbs with which an example defines its own nodes."""
PARTS = {"network", "streams", "nodes", "proxies", "proxies_on"}
"""Names for injecting faults, which are not verbs."""
_FUNCTION = re.compile("<function .*? at 0x[0-9a-f]+>")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")

HEAD = '''# Scenarios of your own

Written by `python docs/scenarios.py`. This page is for engineers who write scenarios: tests of a messenger that
run unchanged on virtual time, between processes, in network namespaces and in containers, in every protocol and
mode. The [catalogue](catalogue.md) lists those of msgrlab. A scenario is a function with a lab as its argument:

```python
from toolkit import Lab, scenario


@scenario(cases={"short": {"idle_s": 10.0}, "long": {"idle_s": 3600.0}}, sim_cases={"long": "it takes an hour"})
def idle_then_cut(lab: Lab, idle_s: float) -> None:
    """A link that dies while its session is idle is replaced when a message is sent."""
    lab.two()
    lab.exchange()
    lab.wait(idle_s)
    lab.cut("a", "b")
    lab.send("a", "b")
    lab.expect_delivered("a", "b", 6)
    lab.settle()
```

```
msgrlab list mine.py                            # the scenarios of a file; mine.py::NAME is one, with its cases
msgrlab run mine.py::idle_then_cut --every-way  # one, in every protocol, mode, cipher and number of shards
msgrlab run mine.py --backend local --out runs  # all, between processes on loopback; also netns, docker, rdma, vm
msgrlab sim mine.py::idle_then_cut --seeds 100  # other latencies and interleavings
```

In Python, `toolkit.run(idle_then_cut)` runs it. The first line of the docstring is the title, the rest the
description. A run fails if an expectation of the scenario is not fulfilled, or if an [invariant](checks.md) is
violated. A failed expectation, or a mistake in the file, is reported with the file and the line.

Name the files with your scenarios, or their folders, in `pyproject.toml`. Then `msgrlab run idle_then_cut`,
`msgrlab list own` and `msgrlab run own` find them from any directory of the project, and one line of
[pytest](testing.md) runs them all:

```toml
[tool.msgrlab]
scenarios = ["scenarios"]
```

Arguments of `@scenario`, all optional:

| argument | meaning |
|---|---|
| `cases` | the parameters of each case, by its name; `NAME[CASE]` runs one |
| `v1_cases` | the cases on msgr v1, if they differ |
| `sim_cases` | cases that run on the simulator only, with the reason |
| `ways` | protocols and modes, such as `["v2-secure", "v1"]`; default: all |
| `backends`, `only` | its backends (`sim`, `local`, `netns`, `docker`, `rdma`), and the reason why on no other |
| `processes` | `True`: each node is a process of its own, except on the simulator; `freeze` and limits need this |
| `provokes` | ids of invariants that the scenario violates on purpose |
| `default_cuts`, `v1_cuts` | where it cuts links, unless `--cut` is given; the function gets them as `cuts` |
| `quick` | `False`: the scenario is slow, so `--every-way` runs it in its first way only |

## The verbs

The methods of a lab are called verbs. A verb about messages takes the sender first and the receiver second. A
verb about a session takes the node that has the session first, and its peer second. Times are in seconds of the
backend's clock, which is virtual on the simulator. `expect_*` and `wait_*` wait until their condition holds, for
at most 20 s or `within_s`, and fail the scenario if it does not.

An example without nodes continues after `lab.two()` and `lab.connect("a", "b")`: two lossless peers with an
open session.
'''
AUTH_NOTE = "An example without nodes continues after the example of `monitor`.\n"


def examples(group: str) -> dict[str, FunctionType]:
    """Return the examples of a group by the names of their verbs."""
    module = _imported(FOLDER / f"{group}.py")
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    }


def verbs() -> set[str]:
    """Return the names of all verbs, and of the other methods of a lab."""
    names = {
        name
        for each in Lab.__mro__
        for name, value in vars(each).items()
        if not name.startswith("_") and isinstance(value, FunctionType | property)
    }
    return names - PARTS


def prepare(group: str, example: FunctionType, lab: Lab) -> None:
    """Create the lab with which an example begins."""
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(inspect.getsource(example)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    if called & PREMISES:
        return
    if group == "auth":
        examples("auth")["monitor"](lab)
    else:
        lab.two()
        lab.connect("a", "b")


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(block for group, title in GROUPS.items() for block in _group(group, title))


def _group(group: str, title: str) -> Iterator[str]:
    yield f"\n### {title}\n"
    if group == "auth":
        yield f"\n{AUTH_NOTE}"
    for name, example in examples(group).items():
        verb = inspect.getattr_static(Lab, name)
        function = verb.fget if isinstance(verb, property) else verb
        summary = " ".join(inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].split())
        signature = "" if isinstance(verb, property) else _signature(function)
        body = inspect.cleandoc(inspect.getsource(example).partition("\n")[2])
        yield f"\n**`{name}{signature}`** {_plain(summary)}\n\n```python\n{body}\n```\n"


def _signature(function: FunctionType) -> str:
    """Return the parameters without types, since their names have the units."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return _FUNCTION.sub("...", str(inspect.Signature(bare)))


def _plain(text: str) -> str:
    """Return a docstring as Markdown."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _imported(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"verbs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
