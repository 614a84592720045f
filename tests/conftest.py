# SPDX-License-Identifier: Apache-2.0

"""Skips the few tests that ask more of onnx than its older releases can do; fails each test in which a form fails.

Where tests search with hypothesis, its search for a smaller example has a bound.
The option `--accept` rewrites what tests have recorded.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from tests import texts
from tests.texts import Says

if TYPE_CHECKING:
    from tests.graphs import Written

pytest.register_assert_rewrite("tests.generators", "tests.oracles", "tests.patterns.lowering_checks")

_EVALUATOR = "onnx's evaluator of this release cannot scatter elements of such a tensor, or multiplies wrongly"
_NEEDS: dict[str, tuple[str, str]] = {
    "test_long_integer_vectors_fill_no_memory[a shape]": (
        "1.23.0",
        "onnx's inference of this release stores every element of such a shape",
    ),
    "test_same_as_onnx_infers[p = Constant<value_ints = [0,0,0,0,0,1]>() Y = Pad(X, p)]": (
        "1.21.0",
        "onnx's inference of this release infers no type of Pad",
    ),
    "test_onnxruntime_agrees[N03_reduction_mul]": ("1.22.0", _EVALUATOR),
    "test_moving_operators_are_those_of_onnx[5-ScatterElements]": ("1.22.0", _EVALUATOR),
    "test_any_axis_of_any_rank[third_of_six]": ("1.23.0", _EVALUATOR),
    "test_any_axis_of_any_rank[last_of_six]": ("1.23.0", _EVALUATOR),
    "test_any_axis_of_any_rank[symbolic_size_behind_others]": ("1.23.0", _EVALUATOR),
    "test_random_graphs": ("1.23.0", _EVALUATOR),
    "test_exports_for_atc": ("1.23.0", _EVALUATOR),
    **{
        f"test_the_maximum_over_any_axis[(2, 1, 3, 4, 5)-{axis}-{keeps}]": ("1.23.0", _EVALUATOR)
        for axis in range(5)
        for keeps in (False, True)
    },
}
"""The first release of onnx with which a test passes, and what older ones lack, by the test's name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for expectations that are recorded in files."""
    parser.addoption("--accept", action="store_true", help="record what is said now where tests compare with a record")


def pytest_configure(config: pytest.Config) -> None:
    """Processes would overwrite each other's records."""
    if config.getoption("--accept") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--accept records in one process: leave out -n")


@pytest.fixture(scope="session")
def accept(pytestconfig: pytest.Config) -> bool:
    """Whether recorded expectations are rewritten."""
    return bool(pytestconfig.getoption("--accept"))


@pytest.fixture
def says(request: pytest.FixtureRequest, accept: bool) -> Says:
    """Compares a sentence with the one recorded for this test, which is marked with the kind and the code."""
    [(kind, code)] = {(m.name, m.args[0]) for m in request.node.iter_markers() if m.name in texts.KINDS}
    test = request.node.nodeid

    def compare(sentence: str | None) -> None:
        assert sentence
        held = texts.recorded(kind)
        if accept:
            texts.record(kind, held | {test: (code, sentence)})
        else:
            assert held.get(test) == (code, sentence), texts.HOW_TO_ACCEPT

    return compare


@pytest.fixture
def written(request: pytest.FixtureRequest, accept: bool) -> Written:
    """Compares what became of a model with the nodes recorded for this test."""
    from tests.graphs import compare  # needs onnx, which the tests of wheels do without

    return partial(compare, request.node.nodeid, accept)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Skip the tests that the installed onnx is too old for; bound the shrinking of all tests that use hypothesis."""
    if "hypothesis" in sys.modules:
        from tests.generators.shrinking import bound_shrinking

        bound_shrinking()
    try:
        installed = Version(version("onnx"))
    except PackageNotFoundError:  # the tests of wheels need no onnx
        return
    for item in items:
        oldest, reason = _NEEDS.get(item.name, ("0", ""))
        if installed < Version(oldest):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Keep the collector of cycles from looking at twenty thousand tests again and again."""
    gc.collect()
    gc.freeze()


class _Defects(logging.Handler):
    """Keeps what the compiler logs of errors in forms."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message with its traceback."""
        self.found.append(self.format(record))


@pytest.fixture(autouse=True)
def no_form_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """No graph of any test may lead to an error in a form, but for the tests of such errors."""
    handler, logger = _Defects(), logging.getLogger("poolgrad_lowering.compiler.lowering.match")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    is_meant = any(mark.args[:1] in (("form-failed",), ("plugin-failed",)) for mark in request.node.iter_markers())
    assert is_meant or not handler.found, "\n".join(handler.found)
