# SPDX-License-Identifier: Apache-2.0

"""The garbage collector is paused during a lowering, restored after it, and has nothing to collect."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import InvalidModelError, lower
from poolgrad_lowering.model.ir.collector import collector_paused
from tests.pool_graphs import parse


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_what_the_caller_turned_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_threads(enabled: bool, first_ends_first: bool) -> None:
    """The collector is paused until both threads have finished, in either order, and then restored."""
    if not enabled:
        gc.disable()
    entered = threading.Barrier(3)
    ends = [threading.Event(), threading.Event()]

    def work(end: threading.Event) -> None:
        with collector_paused():
            entered.wait()
            end.wait()

    threads = [threading.Thread(target=work, args=(end,), daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    entered.wait()
    order = (0, 1) if first_ends_first else (1, 0)
    for number in order:
        assert not gc.isenabled()
        ends[number].set()
        threads[number].join()
    assert gc.isenabled() is enabled


def test_many_threads_that_lower() -> None:
    model = build(Recipe(200, sites=4))
    threads = [threading.Thread(target=lambda: [lower(model) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()


def test_on_again_after_an_error() -> None:
    with pytest.raises(InvalidModelError):
        lower(parse("g (float[2] X) => (float[2] Y) { Y = Relu(nobody) }"))
    assert gc.isenabled()


def test_no_collection_while_a_model_is_lowered() -> None:
    """No collection runs during a lowering; each would traverse all objects of the index."""
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
    """`release` breaks the reference cycles between scopes and nodes."""
    model = build(Recipe(1_500, sites=count, decoys=count, subgraphs=4, functions=4))
    lower(model)
    gc.collect()
    gc.disable()
    lower(model)
    assert gc.collect() < 20
