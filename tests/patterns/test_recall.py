# SPDX-License-Identifier: Apache-2.0

"""Nothing is lost silently: of every graph in the repository, as many sites of each form as the manifests say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from models import catalogue
from models.catalogue import Entry
from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import assert_same_bits, run_ort
from tests.patterns.lowering_checks import TARGETS

FORMS = {
    "adaptive_window_tables": "F16",
    "aten_adaptive_max_pool_grad": "F3",
    "aten_average_pool_grad": "A2",
    "aten_max_pool_grad": "F2",
    "aten_value_selecting_grad": "F14",
    "decomposed_forward": "F12",
    "max_over_axis": "F8",
    "ort_average_pool_grad": "A1",
    "ort_max_pool_grad": "F1",
    "overwrite_scatter": "F7",
    "tensorflow_max_pool_grad": "F11",
    "tensorflow_max_pool_grad_with_argmax": "F11",
    "torch_global_max": "F5",
    "torch_scatter_add": "F4 or F6",
    "user_symbolic_grad": "F15",
}
SAME_FORM = dict.fromkeys(("F4", "F6"), "F4 or F6")
REFUSALS = {  # what the manifest calls a node that must be left alone → the code that it gets
    "equality mask": Code.SPLITS_TIES,
    "float64": Code.DTYPE,
    "implicit gradient": Code.IMPLICIT_GRADIENT,
    "maximum between two axes of symbolic size": Code.UNKNOWN_SHAPE,
    "one-hot scatter of the loss": Code.UNRELATED_INDICES,
    "storage_order": Code.STORAGE_ORDER,
    "traced indices": Code.CONSTANT_INDICES,
    "upsampled equality mask": Code.GRADIENT_TO_ALL_TIES,
}
ALL = [pytest.param(entry, id=entry.name) for entry in (*catalogue.entries(), *catalogue.spellings())]
RUNNING = [
    pytest.param(entry, id=entry.name)
    for entry in catalogue.spellings()
    if entry.file.with_suffix(".npz").exists()  # TensorFlow's nodes have no runtime
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", ALL)
def test_every_gradient_is_lowered_and_nothing_else(entry: Entry, target: str) -> None:
    model = onnx.load(entry.file)
    result = lower(model, target=target)
    expected = Counter[str]()
    for number, count in entry.sites.items():
        expected[SAME_FORM.get(number, number)] += count
    assert Counter(FORMS[anchor.pattern or ""] for anchor in result.report.lowered) == expected
    codes = Counter({REFUSALS[what].value: count for what, count in entry.refused.items()})
    assert Counter(anchor.code for anchor in (*result.report.refused, *result.report.unrelated)) == codes
    assert len(result.report.unrelated) == codes[Code.UNRELATED_INDICES.value]
    assert entry.sites or result.model.SerializeToString() == model.SerializeToString()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("entry", RUNNING)
def test_same_bits_in_onnxruntime(entry: Entry, target: str) -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.load(entry.file)
    expected = run_ort(model, entry.feeds())
    for forward in (True, False):
        found = run_ort(lower(model, target=target, forward=forward).model, entry.feeds())
        for name, array in expected.items():
            assert_same_bits(np.asarray(found[name]), np.asarray(array))
