# SPDX-License-Identifier: Apache-2.0

"""The C++ tables of the dialect's operators and of the functions that run them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from poolgrad_lowering.dialect import DOMAIN, TYPES, VERSION, Op
from poolgrad_lowering.dialect.aclnn_functions import Function
from poolgrad_lowering.dialect.op import INDEX, VALUE, Operand
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS
from poolgrad_lowering.dialect.targets import Target
from tools.operator_tables.cpp import lines, text_literal
from tools.operator_tables.products import aclnn_product

_OPERATORS = """inline constexpr char kDialectDomain[] = "%s";
inline constexpr int kDialectVersion = %d;
inline constexpr char kUnsqueezeScalars[] = "%s";

// Of x, y and the gradients, and of argmax.
inline constexpr ElementType kValueTypes[] = {
%s
};
inline constexpr ElementType kIndexTypes[] = {
%s
};

%s

inline constexpr DialectOp kDialectOps[] = {
%s
};"""

_ROUTES = """inline constexpr Route kRoutes[] = {
%s
};"""

_INDEX_TYPES: dict[frozenset[int], str] = {
    frozenset((TensorProto.INT32,)): "kInt32",
    frozenset((TensorProto.INT64,)): "kInt64",
    frozenset((TensorProto.INT32, TensorProto.INT64)): "kBoth",
    frozenset(): "kNone",
}


def operator_table(ops: Iterable[Op]) -> str:
    """Return the table of these operators."""
    ops = list(ops)
    lists = {_list_name(operands): operands for op in ops for operands in (op.inputs, op.outputs)}
    declared = (
        f"inline constexpr Parts {name} = {{{', '.join(f'Part::k{_part(operand)}' for operand in operands)}}};"
        for name, operands in lists.items()
    )
    types = (lines(map(_element_type, TYPES[variable])) for variable in (VALUE, INDEX))
    return _OPERATORS % (DOMAIN, VERSION, UNSQUEEZE_SCALARS, *types, lines(declared), lines(map(_operator, ops)))


def _element_type(number: int) -> str:
    name = TensorProto.DataType.Name(number)
    acl = {"BFLOAT16": "BF16"}.get(name, name)
    return f'    {{"{tensor_dtype_to_np_dtype(number)}", ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_{name}, ACL_{acl}}},'


def _operator(op: Op) -> str:
    fields = (
        f'"{op.name}"',
        f"Direction::{'kBackward' if op.is_gradient else 'kForward'}",
        _list_name(op.inputs),
        _list_name(op.outputs),
        str(0 if op.is_adaptive else op.axes),
        text_literal(op.data_format),
        text_literal(op.index_type),
    )
    return f"    {{{', '.join(fields)}}},"


def _part(operand: Operand) -> str:
    return operand.part.value.capitalize()


def _list_name(operands: Iterable[Operand]) -> str:
    """The C++ name of a list of operands."""
    return f"k{''.join(map(_part, operands))}"


def route_table(ops: Iterable[Op], targets: Iterable[Target]) -> str:
    """Return the table of the functions that run these operators on the products of these targets."""
    return _ROUTES % lines(_routes(ops, targets))


def _routes(ops: Iterable[Op], targets: Iterable[Target]) -> Iterator[str]:
    products = list(dict.fromkeys(target.aclnn for target in targets if target.aclnn))
    for op in ops:
        for product in products:
            for ranks, function in _ranks(op, product):
                yield _route(op, product, ranks, function)


def _ranks(op: Op, product: str) -> Iterator[tuple[Sequence[int], Function]]:
    """The functions that run an operator on a product, each with ranks of x that follow one another."""
    chosen = [(rank, function) for rank in op.ranks for function in _chosen(op.functions[rank], product)]
    for function in {function.name: function for _, function in chosen}.values():
        ranks = [rank for rank, each in chosen if each is function]
        if ranks != list(range(ranks[0], ranks[-1] + 1)):
            raise ValueError(f"{function.name} runs {op.name} at ranks {ranks}, which do not follow one another")
        yield ranks, function


def _chosen(functions: Iterable[Function], product: str) -> Iterator[Function]:
    """The functions of a product, without those that add no type of argmax to the earlier ones."""
    taken: set[int] | None = None
    for function in functions:
        limits = function.limits.get(product)
        if limits is not None and (taken is None or limits.index_types - taken):
            taken = (taken or set()) | limits.index_types
            yield function


def _route(op: Op, product: str, ranks: Sequence[int], function: Function) -> str:
    limits = function.limits[product]
    fields = (
        f'"{op.name}"',
        f"aclnn::Product::{aclnn_product(product)}",
        ranks[0],
        ranks[-1],
        f"aclnn::Entry::k{function.name.removeprefix('aclnn')}",
        f"IndexTypes::{_INDEX_TYPES[limits.index_types]}",
        str(limits.dilation).lower(),
        _plane(limits.max_plane),
        _plane(limits.max_uneven_plane),
        limits.cores,
    )
    return f"    {{{', '.join(map(str, fields))}}},"


def _plane(largest: int | None) -> str:
    return "kUnlimited" if largest is None else str(largest)
