"""Python's garbage collector: paused while a model is lowered, left as it was, and without work afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import InvalidModelError, lower
from poolgrad_lowering.process.collector import collector_paused
from tests.pool_graphs import parse


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_paused_and_on_again() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_the_caller_turned_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_on_again_after_an_error() -> None:
    with pytest.raises(InvalidModelError):
        lower(parse("g (float[2] X) => (float[2] Y) { Y = Relu(nobody) }"))
    assert gc.isenabled()


def test_no_collection_while_a_model_is_lowered() -> None:
    """Of the thousands of objects of an index, each would be walked over by several."""
    model = build(Recipe(1_500, sites=20, decoys=20))
    lower(model)
    collections = 0

    def count(phase: str, _: dict[str, int]) -> None:
        nonlocal collections
        collections += phase == "start"

    gc.collect()
    gc.callbacks.append(count)
    try:
        lower(model)
    finally:
        gc.callbacks.remove(count)
    assert collections <= 1


@pytest.mark.parametrize("count", [5, 40])
def test_nothing_is_left_to_collect(count: int) -> None:
    """What was read of nodes holds its scope, and the scope holds it, until the index is given up."""
    model = build(Recipe(1_500, sites=count, decoys=count, subgraphs=4, functions=4))
    lower(model)
    gc.collect()
    gc.disable()
    lower(model)
    assert gc.collect() < 20
