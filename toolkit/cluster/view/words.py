"""The faults of a cluster as Python calls, as a timeline, or as a test that repeats them."""

import json
from collections.abc import Iterable

from messenger.errors import LocalError
from toolkit.checks.records import Record
from toolkit.cluster.nemesis import Timeline, TimelineStep
from toolkit.cluster.spec import read_spec
from toolkit.cluster.spec.model import ClusterSpec
from toolkit.faults.language import parse

_TEST = '''from toolkit.cluster.nemesis import Timeline, torment
{imports}
TIMELINE = """
{timeline}
"""


def {name}(msgrlab_cluster):
    cluster = msgrlab_cluster({spec})
    verdict = torment(cluster, Timeline.parse(TIMELINE))
    assert verdict.passed, verdict
'''


def fault_text(record: Record) -> str:
    """Return the text of the fault in a step record: ``reset a b``."""
    return f"{record.fields['verb']} {record.fields['args']}".strip()


def python_of(fault: str) -> str:
    """Return the Python call that starts a fault.

    >>> python_of("reset a b")
    'cluster.fault("reset a b")'
    """
    return f"cluster.fault({json.dumps(fault)})"


def timeline_of(steps: Iterable[Record], ready_s: float) -> Timeline:
    """Return the steps as a timeline, with times since the cluster was ready."""
    found = []
    for record in steps:
        try:
            found.append(TimelineStep(round(max(0.0, record.time_s - ready_s), 3), parse(fault_text(record))))
        except LocalError:
            continue  # a step that is no fault, of a scenario for example
    return Timeline.of(found)


def test_of(timeline: Timeline, spec: ClusterSpec, name: str) -> str:
    """Return a pytest test that runs the timeline on a cluster of that spec and requires all invariants."""
    ready_made = _is_ready_made(spec)
    calm = spec.model_copy(update={"timeline": (), "chaos": None})
    text = json.dumps(calm.as_json(), indent=1)
    return _TEST.format(
        name=name,
        timeline=timeline.yaml().strip(),
        imports="" if ready_made else f"from toolkit.cluster.spec import parse_spec\n\nSPEC = r'''\n{text}\n'''\n",
        spec=json.dumps(spec.name) if ready_made else "parse_spec(SPEC)",
    )


def _is_ready_made(spec: ClusterSpec) -> bool:
    """True if the spec is a ready-made one, without its own faults."""
    try:
        return read_spec(spec.name) == spec and not spec.timeline and spec.chaos is None
    except LocalError:
        return False
