# SPDX-License-Identifier: Apache-2.0

"""Look-alikes without pool Indices: equality masks against the pooled tensor."""

from __future__ import annotations

from tests.heads import head

NMS_KEEP_MASK = (
    head(18)
    + """
    g (float[2,3,8,8] x) => (float[2,3,8,8] kept) {
        y = MaxPool <kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]> (x)
        e = Equal (x, y)
        m = Cast <to=1> (e)
        kept = Mul (m, x)
    }"""
)

STRIDE_ONE_MASK = (
    head(18)
    + """
    g (float[2,3,8,8] x, float[2,3,8,8] dy) => (float[2,3,8,8] y, float[2,3,8,8] dx) {
        y = MaxPool <kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]> (x)
        e = Equal (x, y)
        m = Cast <to=1> (e)
        dx = Mul (m, dy)
    }"""
)
