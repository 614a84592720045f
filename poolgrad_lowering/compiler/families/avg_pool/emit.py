# SPDX-License-Identifier: Apache-2.0

"""Writes the nodes that replace an average pool's gradient: one of the dialect, the shape of x, and views around it.

All nodes are operators of the scope's opset.
"""

from __future__ import annotations

import functools

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.shared.emission import SiteWriter, canvas_extents, write_dx, write_grad
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import is_static


def emit(_: Facts, site: Lowered[AveragePoolGradient], taken: set[str]) -> list[NodeProto]:
    """The nodes that compute the gradient's dx, in order; the dialect's node is among them exactly once."""
    gradient, op = site.gradient, site.op
    dx = gradient.dx.value
    writer = SiteWriter(dx.name, taken, dx.scope.opset)
    grad = write_grad(writer, gradient)
    inputs = []
    for operand in OPS[op.name].inputs:
        if operand.part is Part.SIZES:
            inputs.append(_sizes(writer, site, grad))
        elif operand.part is Part.X:
            inputs.append(_zeros(writer, site, grad) if gradient.x is None else gradient.x.value.name)
        else:
            inputs.append(_divided(writer, site, grad))
    write_dx(writer, gradient, op, inputs)
    return writer.nodes


def _zeros(writer: SiteWriter, site: Lowered[AveragePoolGradient], grad: str) -> str:
    """Zeros in x's shape and type: the operator reads no elements of x, and the graph may have no such value."""
    element_type = helper.tensor_dtype_to_np_dtype(site.gradient.element_type)
    zero = numpy_helper.from_array(np.zeros(1, element_type))
    wide = writer.write("Cast", [_sizes(writer, site, grad)], "wide_sizes", to=TensorProto.INT64)
    return writer.write("ConstantOfShape", [wide], "x", value=zero)


def _sizes(writer: SiteWriter, site: Lowered[AveragePoolGradient], grad: str) -> str:
    """x's shape as int32, on the canvas if there is one: a constant, or N and C of grad, or the shape of a value."""
    gradient, op = site.gradient, site.op
    shape = gradient.x_shape
    spatial = canvas_extents(gradient, op)[1] if op.canvas else [dim.static for dim in shape[2:]]
    known = [extent for extent in spatial if extent is not None]
    if is_static(shape):
        sizes = np.array([*(dim.coefficient for dim in shape[:2]), *known], np.int32)
        return writer.write("Constant", [], "sizes", value=numpy_helper.from_array(sizes))
    if len(known) == len(spatial):
        whole = writer.write("Shape", [grad], "grad_shape")
        batch = writer.write("Gather", [whole, writer.constant([0, 1], "batch_axes")], "batch", axis=0)
        wide = writer.write("Concat", [batch, writer.constant(known, "spatial")], "wide_sizes", axis=0)
    elif gradient.x is not None:
        wide = writer.write("Shape", [gradient.x.value.name], "wide_sizes")
    else:
        raise AssertionError(f"no value has the shape of the pooled input of '{gradient.dx.value.name}'")
    return writer.write("Cast", [wide], "sizes", to=TensorProto.INT32)


def _divided(writer: SiteWriter, site: Lowered[AveragePoolGradient], grad: str) -> str:
    """The gradient, divided by the divisors of its windows if the operator cannot count them.

    One of a half type is divided in float32: a half type does not hold all divisors, and onnxruntime divides no
    bfloat16 on the CPU.
    """
    if not site.op.divisors:
        return grad
    divisors = functools.reduce(np.multiply.outer, [np.array(each, np.int64) for each in site.op.divisors])
    values = numpy_helper.from_array(divisors[None, None].astype(np.float32))
    is_half = site.gradient.element_type != TensorProto.FLOAT
    wide = writer.write("Cast", [grad], "wide_grad", to=TensorProto.FLOAT) if is_half else grad
    divided = writer.write("Div", [wide, writer.write("Constant", [], "divisors", value=values)], "divided")
    return writer.write("Cast", [divided], "narrow", to=site.gradient.element_type) if is_half else divided
