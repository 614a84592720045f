# SPDX-License-Identifier: Apache-2.0

"""What is changed: the replacements of one node of Python's syntax tree, each of one small mistake."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NAMES = {"all": "any", "any": "all", "min": "max", "max": "min"}

STRICT = "strict"
"""The argument of zip that says what is so anyway."""


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the node's place."""
    for kind, replace in _OPERATORS:
        if isinstance(node, kind):
            yield from replace(node)


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for place, operator in enumerate(node.ops):
        changed = copy.deepcopy(node)
        changed.ops[place] = _COMPARISONS[type(operator)]()
        yield changed


def _arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    if type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _condition(node: ast.BoolOp) -> Iterator[ast.AST]:
    """The other connective, and each operand left out."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for place in range(len(node.values)):
        kept = node.values[:place] + node.values[place + 1 :]
        yield ast.BoolOp(node.op, kept) if len(kept) > 1 else kept[0]


def _sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    """Another number, truth or name; what has a space is a message."""
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node.value, str) and node.value and " " not in node.value:
        yield ast.Constant(node.value + "_")


def _name(node: ast.Name) -> Iterator[ast.AST]:
    if node.id in _NAMES:
        yield ast.Name(_NAMES[node.id], node.ctx)


def _call(node: ast.Call) -> Iterator[ast.AST]:
    """Each named argument left out."""
    for place, keyword in enumerate(node.keywords):
        if keyword.arg != STRICT:
            yield ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])


def _comprehension(node: ast.comprehension) -> Iterator[ast.AST]:
    """Each condition left out."""
    for place in range(len(node.ifs)):
        kept = node.ifs[:place] + node.ifs[place + 1 :]
        yield ast.comprehension(node.target, node.iter, kept, node.is_async)


def _choice(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse


def _branch(node: ast.If) -> Iterator[ast.AST]:
    """A branch that is always taken, and one that never is."""
    for truth in (True, False):
        yield ast.If(ast.Constant(truth), node.body, node.orelse)


def _result(node: ast.Return) -> Iterator[ast.AST]:
    """None, which nobody tells from False."""
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value in (None, False)):
        yield ast.Return(ast.Constant(None))


def _statement(node: ast.Expr | ast.AugAssign) -> Iterator[ast.AST]:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield ast.Pass()


def _loop(node: ast.Continue | ast.Break) -> Iterator[ast.AST]:
    yield ast.Break() if isinstance(node, ast.Continue) else ast.Continue()


_OPERATORS: tuple[tuple[type | tuple[type, ...], Callable[..., Iterator[ast.AST]]], ...] = (
    (ast.Compare, _compare),
    (ast.BinOp, _arithmetic),
    (ast.BoolOp, _condition),
    (ast.UnaryOp, _sign),
    (ast.Constant, _constant),
    (ast.Name, _name),
    (ast.Call, _call),
    (ast.comprehension, _comprehension),
    (ast.IfExp, _choice),
    (ast.If, _branch),
    (ast.Return, _result),
    ((ast.Expr, ast.AugAssign), _statement),
    ((ast.Continue, ast.Break), _loop),
)
