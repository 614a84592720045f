# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form as `lookalikes.scatter.gradient` writes it by default, as text: its pool, and what it becomes."""

from __future__ import annotations

from tests.patterns.lowering_checks import backward

FORWARD = "y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)"
PLANE_LOCAL = f"""{FORWARD}
    y1, i1 = MaxPool <kernel_shape=[1,1], strides=[1,1]> (x)
    d = Slice (i1, starts, ends, axes)
    p = Sub (i, d)"""
LOWERED = f"""{PLANE_LOCAL}
    dx_argmax = Cast <to=6> (p)
    {backward()}"""
