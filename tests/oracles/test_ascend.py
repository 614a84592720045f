# SPDX-License-Identifier: Apache-2.0

"""The oracle of Ascend's pools against ONNX's definition, where both say the same, and against torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, max_pool, pool_windows


def test_windows_written_out() -> None:
    assert pool_windows(5, 3, 2, 1, 1, ceil_mode=False) == [[0, 1], [1, 2, 3], [3, 4]]
    assert pool_windows(6, 3, 2, 1, 1, ceil_mode=False) == [[0, 1], [1, 2, 3], [3, 4, 5]]
    assert pool_windows(6, 3, 2, 1, 1, ceil_mode=True) == [[0, 1], [1, 2, 3], [3, 4, 5], [5]]
    assert pool_windows(5, 2, 3, 1, 1, ceil_mode=True) == [[0], [2, 3]]  # a third would start in the right padding
    assert pool_windows(5, 2, 2, 1, 3, ceil_mode=False) == [[2], [1, 4]]
    assert pool_windows(2, 3, 1, 0, 1, ceil_mode=False) == []
    assert adaptive_windows(5, 3) == [[0, 1], [1, 2, 3], [3, 4]]
    assert adaptive_windows(2, 3) == [[0], [0, 1], [1]]


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_agrees_with_onnx(ceil_mode: bool) -> None:
    rng = np.random.default_rng(0)
    for kernel, stride, dilation, size in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (5, 6, 9)):
        pad = kernel // 2
        x = rng.integers(-2, 3, (2, 1, size, 7)).astype(np.float32)
        windows = [
            pool_windows(size, kernel, stride, pad, dilation, ceil_mode=ceil_mode),
            pool_windows(7, 2, 2, 0, 1, ceil_mode=ceil_mode),
        ]
        y, argmax = ascend_pool(x, windows)
        lists = ([kernel, 2], [stride, 2], [pad, 0, pad, 0], [dilation, 1])
        expected, indices = max_pool(x, *lists, ceil_mode=ceil_mode)
        assert_same_bits(y, expected)
        assert_same_bits(argmax, indices % (size * 7))


@pytest.mark.parametrize("out", [(2, 3), (5, 7), (1, 4)])
def test_agrees_with_torch_on_nan_and_ties(out: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x = rng.choice(np.array([1, 2, np.nan, -np.inf], np.float32), (3, 2, 5, 7))
    y, argmax = ascend_pool(x, [adaptive_windows(size, count) for size, count in zip((5, 7), out, strict=True)])
    expected, indices = torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(x), out, return_indices=True)
    assert_same_bits(y, expected.numpy())
    # torch starts below -inf and so gives a window of -inf its first position, as CANN does.
    assert_same_bits(argmax, indices.numpy())
