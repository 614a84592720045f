# SPDX-License-Identifier: Apache-2.0

"""Decompositions of backward operators that torch's ONNX exporter cannot translate.

A user needs them to export a joint graph with convolutions, 3-D pools or adaptive pools: torch 2.13 decomposes only the
backward of 2-D max pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Decompositions = dict[Any, Callable[..., Any]]
"""Functions that compute operators, by the overload of the operator."""

aten = torch.ops.aten


def convolution_backward(dy: Tensor, x: Tensor, weight: Tensor, *attributes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of x, weight and bias of a convolution of stride 1, dilation 1 and one group.

    `attributes` are those of the operator: bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
    output_mask.

    Raises:
        NotImplementedError: the convolution has another stride, dilation or number of groups, or is transposed.
    """
    _, stride, padding, dilation, transposed, _, groups, _ = attributes
    if transposed or groups != 1 or any(s != 1 for s in stride) or any(d != 1 for d in dilation):
        raise NotImplementedError("convolution_backward: only stride 1, dilation 1, one group")
    spatial = list(range(2, x.ndim))
    ones, zeros = [1] * len(spatial), [0] * len(spatial)

    def convolve(image: Tensor, filters: Tensor, pads: Sequence[int]) -> Tensor:
        result: Tensor = aten.convolution(image, filters, None, ones, list(pads), ones, False, zeros, 1)
        return result

    reach = [weight.shape[axis] - 1 - pad for axis, pad in zip(spatial, padding, strict=True)]
    dx = convolve(dy, weight.flip(spatial).transpose(0, 1), reach)
    dweight = convolve(x.transpose(0, 1), dy.transpose(0, 1), padding).transpose(0, 1)
    return dx, dweight, dy.sum([0, *spatial], dtype=dy.dtype)


def pool_backward(dy: Tensor, x: Tensor, *attributes_and_indices: Any) -> Tensor:
    """Return the gradient of a pool as torch decomposes that of max_pool2d: a scatter over rows, one per plane."""
    indices = attributes_and_indices[-1]
    rows = dy.numel() // dy[0, 0].numel()
    canvas = dy.new_zeros(rows, x[0, 0].numel())
    return canvas.scatter_add(1, indices.reshape(rows, -1), dy.reshape(rows, -1)).reshape(x.shape)


def pool_backward_over_planes(dy: Tensor, x: Tensor, *attributes_and_indices: Any) -> Tensor:
    """Return the gradient of a pool with N and C kept apart: a scatter over (N, C, plane) along the last axis."""
    indices = attributes_and_indices[-1]
    canvas = dy.new_zeros(x.shape[0], x.shape[1], x[0, 0].numel())
    return canvas.scatter_add(-1, indices.flatten(2), dy.flatten(2)).reshape(x.shape)


def pool_backward_overwriting(dy: Tensor, x: Tensor, *attributes_and_indices: Any) -> Tensor:
    """Return a scatter without addition, a common mistake: the last gradient of an element overwrites the others."""
    indices = attributes_and_indices[-1]
    rows = dy.numel() // dy[0, 0].numel()
    canvas = dy.new_zeros(rows, x[0, 0].numel())
    return canvas.scatter(1, indices.reshape(rows, -1), dy.reshape(rows, -1)).reshape(x.shape)


NEEDED: Decompositions = {
    aten.convolution_backward.default: convolution_backward,
    aten.max_pool3d_with_indices_backward.default: pool_backward,
    aten.adaptive_max_pool2d_backward.default: pool_backward,
}
"""The exporter rejects the graphs without these."""

THREE_AXES: Decompositions = {
    aten.max_pool2d_with_indices_backward.default: pool_backward_over_planes,
}
"""A user's own form of the 2-D gradient."""

OVERWRITING: Decompositions = {
    aten.max_pool2d_with_indices_backward.default: pool_backward_overwriting,
}
"""Correct only if windows do not overlap."""
