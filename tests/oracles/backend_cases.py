# SPDX-License-Identifier: Apache-2.0

"""ONNX's own cases of MaxPool."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from unittest.mock import patch

from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase


def max_pool_cases() -> list[TestCase]:
    """The cases; onnx would compute those of all operators before it chose these, for seconds."""

    def import_those_of_max_pool(package: ModuleType) -> None:
        import_module(f"{package.__name__}.maxpool")

    with patch.object(node, "import_recursive", import_those_of_max_pool):
        return node.collect_testcases("MaxPool")
