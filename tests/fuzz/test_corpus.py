"""Every input of the corpus, and changes of them, against the promises of its target."""

import random
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.fuzz import corpus, findings
from tests.fuzz.mutate import changed
from tests.fuzz.registry import all_targets
from tests.fuzz.target import Target, run_checked

TARGETS = all_targets()
SEED = 20060701


@pytest.fixture
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def replay(target: Target, data: bytes) -> None:
    try:
        run_checked(target, data)
    except Exception as error:
        error.add_note(f"again: {findings.replay_command(target.name, findings.keep(target.name, data))}")
        raise


@pytest.mark.usefixtures("traced_memory")
@pytest.mark.parametrize("name", TARGETS)
def test_every_target_passes_its_corpus_and_mutations_of_it(name: str) -> None:
    target = TARGETS[name]
    inputs = corpus.load(name)
    target.run(inputs[0])  # what the first run caches belongs to no input
    replayed = 0
    for data in (*inputs, *changed(inputs, target.mutations, random.Random(SEED))):
        replay(target, data)
        replayed += 1
    assert replayed > len(inputs)


def test_every_target_has_a_corpus() -> None:
    assert {path.stem for path in corpus.FOLDER.iterdir()} == set(TARGETS)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.iterdir()) <= corpus.LIMIT_BYTES
