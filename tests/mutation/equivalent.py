# SPDX-License-Identifier: Apache-2.0

"""Mutants that compute what the original does, by name, each with the reason."""

from __future__ import annotations

_ONLY_OF_NODES = "the order of Indices is only read of MaxPool nodes, and here is none"
_ODD_LENGTH = "of an odd number of sizes, every second one without the last, or without the last two, are the same"
_ONLY_FOR_TYPES = "a caller has compared it with a value, so it is not None; says so to the type checker"
_NO_NAME = "the empty name and None both refer to no value; the type checker wants a name"
_ONLY_A_NAME = "the value of an enumeration that is only compared with itself"
_ONLY_A_TYPE = "an int is made of the product, of integers and below 2^53; dtype is that of an empty one"
_ONLY_A_KEY = "a table of names holds None as little as the empty name, which type checkers take"
_NOT_ABSENT = "a scatter without the operand was refused before; type checkers do not see it"
_ONLY_FOR_SPEED = "the same comes out, by more steps or more memory"
_OTHER_COLUMNS = "joined along another axis, every table has as many columns as an entry, which is one too many"

EQUIVALENT: dict[str, str] = {
    "poolgrad_lowering.patterns.decomposed_forward._attributes: 0 → 1": _ONLY_OF_NODES,
    "poolgrad_lowering.patterns.decomposed_forward._pooled: 1 → 2": _ODD_LENGTH,
    "poolgrad_lowering.patterns.implicit_gradient.match: text(node, 'y') or '' → text(node, 'y')": _NO_NAME,
    "poolgrad_lowering.patterns.user_symbolic_grad._forward: "
    "rank is None or x is None or recorded is None or facts.is_function(node) → "
    "rank is None or x is None or facts.is_function(node)": _ONLY_FOR_TYPES,
    "poolgrad_lowering.rewriting.argmax._on_canvas: "
    "np.prod(canvas[axis + 1:], dtype=np.int64) → np.prod(canvas[axis + 1:])": _ONLY_A_TYPE,
    "poolgrad_lowering.rewriting.argmax._on_canvas: "
    "np.prod(sizes[axis:], dtype=np.int64) → np.prod(sizes[axis:])": _ONLY_A_TYPE,
    "poolgrad_lowering.matching.scatter_nd._check_nd_rows: "
    "facts.shape(indices) if indices is not None else None → facts.shape(indices)": _NOT_ABSENT,
    "poolgrad_lowering.matching.scatter_nd._check_nd_rows: "
    "base is None or indices is None or (not entries) → base is None or not entries": _NOT_ABSENT,
    "poolgrad_lowering.matching.scatter_nd._names_own_rows: "
    "if integer(node, 'axis') not in (-1, depth) → if False": _OTHER_COLUMNS,
    "poolgrad_lowering.matching.scatter_nd._counts_rows: "
    "np.indices(sizes[:columns], sparse=True) → np.indices(sizes[:columns])": _ONLY_FOR_SPEED,
    "poolgrad_lowering.matching.scatter_nd._counts_rows: True → False": _ONLY_FOR_SPEED,
    "poolgrad_lowering.matching.tensorflow.gradient_operator: data_format or '' → data_format": _ONLY_A_KEY,
    "poolgrad_lowering.matching.tensorflow.gradient_operator: "
    "text(node, 'padding') or '' → text(node, 'padding')": _ONLY_A_KEY,
    "poolgrad_lowering.matching.views.find_result: break → continue": _ONLY_FOR_SPEED,
    "poolgrad_lowering.matching.views.find_result: break → continue #2": _ONLY_FOR_SPEED,
    "poolgrad_lowering.analysis.provenance.Numbering: 'tensor' → 'tensor_'": _ONLY_A_NAME,
    "poolgrad_lowering.analysis.provenance.Numbering: 'plane' → 'plane_'": _ONLY_A_NAME,
    "poolgrad_lowering.analysis.provenance.Numbering: 'axis' → 'axis_'": _ONLY_A_NAME,
    "poolgrad_lowering.patterns.aten_adaptive_max_pool_grad.match: "
    "aten_operator(facts, node) or '' → aten_operator(facts, node)": _ONLY_A_KEY,
    "poolgrad_lowering.patterns.aten_adaptive_max_pool_grad._forward: "
    "aten_operator(facts, node) or '' → aten_operator(facts, node)": _ONLY_A_KEY,
    "poolgrad_lowering.patterns.aten_max_pool_grad.match: "
    "aten_operator(facts, node) or '' → aten_operator(facts, node)": _ONLY_A_KEY,
    "poolgrad_lowering.patterns.aten_max_pool_grad._forward: "
    "aten_operator(facts, node) or '' → aten_operator(facts, node)": _ONLY_A_KEY,
}
