# SPDX-License-Identifier: Apache-2.0

"""Attributes that TensorFlow's max-pool gradient operators do not have."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lowering_checks import check_refused
from tests.patterns.test_tensorflow_max_pool_grad import SAME, gradient

EXPLICIT = SAME.replace("SAME", "EXPLICIT")
MALFORMED = {
    "unknown_layout": f'{SAME}, data_format="NCHW_VECT_C"',
    "unknown_layout_of_channels_first": 'ksize=[1,1,3,3], strides=[1,1,2,2], padding="SAME", data_format="NCHW_VECT_C"',
    "layout_is_a_number": f"{SAME}, data_format=1",
    "no_padding": "ksize=[1,3,3,1], strides=[1,2,2,1]",
    "unknown_padding": SAME.replace("SAME", "FULL"),
    "no_kernel": 'strides=[1,2,2,1], padding="SAME"',
    "no_strides": 'ksize=[1,3,3,1], padding="SAME"',
    "no_spatial_axis": 'ksize=[1,1], strides=[1,1], padding="SAME"',
    "one_spatial_axis": 'ksize=[1,3,1], strides=[1,2,1], padding="SAME"',
    "too_few_strides": SAME.replace("[1,2,2,1]", "[1,2,1]"),
    "strides_over_the_batch": SAME.replace("[1,2,2,1]", "[2,2,2,1]"),
    "strides_over_the_channels": SAME.replace("[1,2,2,1]", "[1,2,2,2]"),
    "kernel_of_zero": SAME.replace("[1,3,3,1]", "[1,3,0,1]"),
    "explicit_without_paddings": EXPLICIT,
    "too_few_paddings": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,0,0]",
    "padding_before_the_batch": f"{EXPLICIT}, explicit_paddings=[1,0,1,1,1,1,0,0]",
    "padding_after_the_channels": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,1,1,0,1]",
    "less_than_no_padding_before": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,-1,1,0,0]",
    "less_than_no_padding_after": f"{EXPLICIT}, explicit_paddings=[0,0,1,-1,1,1,0,0]",
}


@pytest.mark.refusal("pool-attributes")
@pytest.mark.parametrize("attributes", MALFORMED.values(), ids=MALFORMED)
def test_malformed_attributes(attributes: str) -> None:
    check_refused(gradient(attributes=attributes), Code.POOL_ATTRIBUTES)
