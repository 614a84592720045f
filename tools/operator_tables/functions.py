# SPDX-License-Identifier: Apache-2.0

"""The C++ table of aclnn's functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import TensorProto

from poolgrad_lowering.dialect import Op
from poolgrad_lowering.dialect.aclnn_functions import Function, Signature

_TEXT = """
// clang-format off
// X(name without "aclnn", axes, tensors, lists, index type), in the order in which the functions are looked up.
#define POOLGRAD_ACLNN_FUNCTIONS(X) \\
%s

// X(result, name, parameters) for both phases of each.
#define POOLGRAD_ACLNN_OPERATOR_FUNCTIONS(X) \\
%s
// clang-format on
"""

_TENSORS_AND_LISTS = {
    Signature.MAX_POOL: "kPool, kWindow",
    Signature.ADAPTIVE_MAX_POOL: "kPool, kOutputSize",
    Signature.MAX_POOL_BACKWARD: "kGradient, kWindow",
    Signature.ADAPTIVE_MAX_POOL_BACKWARD: "kGradient, kNoLists",
    Signature.AVG_POOL_2D_BACKWARD: "kAverageGradient, kAverageWindow",
    Signature.AVG_POOL_3D_BACKWARD: "kAverageGradient, kAverageWindow",
    Signature.ADAPTIVE_AVG_POOL_BACKWARD: "kAverageGradient, kNoLists",
}


def function_table(ops: Iterable[Op]) -> str:
    """Return the table of the functions that run these operators."""
    functions = _functions(ops)
    return _TEXT % tuple(" \\\n".join(f"  X({row})" for row in rows) for rows in (_rows(functions), _phases(functions)))


def _functions(ops: Iterable[Op]) -> list[Function]:
    """The functions that run the operators: those of pools first, and those over more axes before the others."""
    by_name = {
        function.name: function
        for op in sorted(ops, key=lambda op: op.is_gradient)
        for rank in reversed(op.ranks)
        for function in op.functions[rank]
    }
    return list(by_name.values())


def _rows(functions: Iterable[Function]) -> Iterator[str]:
    for function in functions:
        common = frozenset.intersection(*(limits.index_types for limits in function.limits.values()))
        index = TensorProto.DataType.Name(min(common)) if common else "DT_UNDEFINED"
        operands = _TENSORS_AND_LISTS[function.signature]
        yield f"{function.name.removeprefix('aclnn')}, {function.axes}, {operands}, ACL_{index}"


def _phases(functions: Iterable[Function]) -> Iterator[str]:
    for function in functions:
        yield f"aclnnStatus, {function.name}GetWorkspaceSize, POOLGRAD_ACLNN_{function.signature.name}_PARAMETERS"
        yield f"aclnnStatus, {function.name}, POOLGRAD_ACLNN_EXECUTE_PARAMETERS"
