# SPDX-License-Identifier: Apache-2.0

"""Built graphs of onnxruntime-training and tf2onnx in standard ONNX have the results of their producers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower
from poolgrad_lowering.standard.table import DEFINITIONS

FOREIGN = {"com.microsoft", "org.pytorch.aten"}
OF_TRAINING = [*catalogue.entries("ort"), *catalogue.spellings()]
WITH_RESULTS = [entry for entry in OF_TRAINING if entry.file.with_suffix(".npz").exists()]


def has_definitions(model: onnx.ModelProto) -> bool:
    return any((node.domain, node.op_type) in DEFINITIONS for node in model.graph.node)


@pytest.mark.parametrize("entry", catalogue.entries("ort"), ids=lambda entry: entry.name)
def test_nothing_is_left(entry: Entry) -> None:
    found = lower(onnx.load(entry.file), standard=True)
    assert found.report.standard is not None
    assert found.report.standard.left == ()
    assert not [node.op_type for node in found.model.graph.node if node.domain in FOREIGN]
    onnx.checker.check_model(found.model)


@pytest.mark.parametrize("entry", WITH_RESULTS, ids=lambda entry: entry.name)
def test_results_of_the_producer(entry: Entry) -> None:
    expected, original = entry.expected(), onnx.load(entry.file)
    if not (expected and has_definitions(original)):
        pytest.skip("the producer cannot run its own graph, or it has no operators of its own")
    model = lower(original, standard=True).model
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    results = dict(zip(names, session.run(names, entry.feeds()), strict=True))
    compared = {name: array for name, array in expected.items() if array.dtype.kind == "f"}  # a buffer was a flag
    assert compared
    for name, array in compared.items():
        bound = 2e-3 if array.dtype == np.float16 else 1e-5  # of the largest element: sums in another order
        assert np.abs(results[name] - array).max() <= bound * max(np.abs(array).max(), 1e-6), name
