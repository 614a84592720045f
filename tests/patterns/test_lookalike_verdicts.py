# SPDX-License-Identifier: Apache-2.0

"""What the compiler does with every look-alike: the gradients are lowered to the same bits, the impostors untouched."""

from __future__ import annotations

import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lookalikes import LOOKALIKES
from tests.patterns.lowering_checks import TARGETS, check_same_results

REFUSALS: dict[str, Code] = {
    "N01_overwrite_overlap": Code.OVERLAPPING_OVERWRITE,
    "N02_reduction_max": Code.REDUCTION,
    "N03_reduction_mul": Code.REDUCTION,
    "N04_base_is_ones": Code.BASE_NOT_ZERO,
    "N05_base_is_activation": Code.BASE_NOT_ZERO,
    "N06_indices_shifted": Code.PLANE_BASE,
    "N10_indices_transposed": Code.INDICES_ALTERED,
    "N11_result_has_other_shape": Code.DX_SHAPE,
    "N12_rows_are_not_planes": Code.ROWS_NOT_PLANES,
    "N13_larger_canvas": Code.ROW_LENGTH,
    "N14_part_of_dy": Code.INDICES_ALTERED,
    "N15_constant_indices": Code.INDICES_SOURCE,
    "N18_storage_order": Code.STORAGE_ORDER,
    "N20_indices_are_an_input": Code.INDICES_SOURCE,
    "N22_indices_of_two_pools": Code.INDICES_SOURCE,
    "N24_companion_reads_another_element": Code.PLANE_BASE,
    "N25_nms_keep_mask": Code.UNRELATED_MASK,
    "N26_stride_one_mask": Code.UNRELATED_MASK,
    "Q2_attributes_disagree": Code.ATTRIBUTE_MISMATCH,
    "Q3_indices_are_an_input": Code.INDICES_SOURCE,
    "Q4_indices_shifted": Code.PLANE_BASE,
    "Q5_storage_order": Code.STORAGE_ORDER,
    "Q6_result_has_other_shape": Code.DX_SHAPE,
}
STAYS = ("P1_indices_have_other_reader", "Q7_indices_have_other_reader")
GRADIENTS = [name for name, row in LOOKALIKES.items() if row.expected == "lowered"]


def test_every_row_has_a_verdict() -> None:
    assert sorted([*GRADIENTS, *REFUSALS]) == sorted(LOOKALIKES)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_lowered(name: str, target: str) -> None:
    row = LOOKALIKES[name]
    model = row.build()
    result = lower(model, target=target)
    [anchor] = result.report.anchors
    assert anchor.status == "lowered"
    assert anchor.forward_code == (Code.FORWARD_READERS.value if name in STAYS else None)
    for seed in range(2):
        check_same_results(model, result.model, row.feeds(seed))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REFUSALS)
def test_impostors_are_refused(name: str, target: str) -> None:
    model, code = LOOKALIKES[name].build(), REFUSALS[name]
    before = model.SerializeToString()
    result = lower(model, target=target)
    assert [anchor.code for anchor in result.report.anchors] == [code.value]
    assert result.model.SerializeToString() == before
