# SPDX-License-Identifier: Apache-2.0

"""The function bodies of an adaptive max pool: how each computes the maximum of a window."""

from __future__ import annotations

from enum import Enum


class Maximum(Enum):
    """How a body computes y. The bodies differ for windows with zeros of both signs or NaN alone.

    ONNX does not say which zero ReduceMax returns for +0.0 and −0.0, nor what ReduceMax and ArgMax do with NaN. In a
    runtime both depend on how the elements of a window lie in memory, so there is a body for each arrangement. And
    onnxruntime's Where makes +0.0 of −0.0, so a body has one only where the graph had one.
    """

    SELECTED = "selected"  # the element at argmax: the first maximum, or the last NaN as on Ascend
    WHOLE = "whole"  # ReduceMax over whole axes of x as it lies; every axis is pooled to one element or not at all
    GATHERED = "gathered"  # ReduceMax over rows: the elements of a window, the last one repeated
    FILLED = "filled"  # the same, with Where and −inf for elements that a window has fewer than the longest one
