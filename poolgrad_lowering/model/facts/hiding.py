# SPDX-License-Identifier: Apache-2.0

"""Hides from ONNX's shape inference what makes it infer sizes that a run does not have: windows that runtimes drop,
pads that they ignore, bounds of Slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto

from poolgrad_lowering.model.ir.index import subgraphs
from poolgrad_lowering.model.ir.scopes import LOCAL, canonical_domain

Op = tuple[str, str]
_UNKNOWN = "?"
"""The name of no operator."""


class Hiding:
    """Removes what misleads onnx's inference: bounds of Slices, pools whose windows it miscounts, types in subgraphs.

    Of a Slice, inference then propagates only type and rank; the rules derive more. With known bounds, its inference
    ends the process if a window larger than its input made a size negative. Of such a pool, and of a call whose
    attributes make one, it infers nothing.
    """

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        """Take the model's functions, whose calls are not recursive.

        The attributes of a call may be those of a pool in the function, or in one that it calls.
        """
        self._referring: defaultdict[Op, list[tuple[FunctionProto, list[NodeProto]]]] = defaultdict(list)
        for function in functions:
            referring = [node for node in with_inner(function.node) if refers(node)]
            if referring:
                self._referring[canonical_domain(function.domain) or LOCAL, function.name].append((function, referring))
        self._found: dict[tuple[Op, tuple[tuple[str, bytes], ...]], bool] = {}

    def hide(self, nodes: Iterable[NodeProto]) -> None:
        """Change nodes, and those in their subgraphs."""
        for node in nodes:
            if node.op_type == "Slice":
                node.input[1:] = [""] * (len(node.input) - 1)
            elif not refers(node) and self._is_miscounted(node, {}):
                node.op_type = _UNKNOWN
            for attribute in node.attribute:
                for _, graph in subgraphs(attribute):
                    del graph.value_info[:]
                    for value in (*graph.input, *graph.output):
                        hide_shapes(value.type)
                    self.hide(graph.node)

    def _is_miscounted(self, node: NodeProto, given: Mapping[str, AttributeProto]) -> bool:
        """Whether a node, or one that it calls, may be miscounted in a function with the attributes `given`.

        An attribute that refers to nothing in `given` is absent.
        """
        values = {held.name: given.get(held.ref_attr_name) if held.ref_attr_name else held for held in node.attribute}
        held = {name: value for name, value in values.items() if value is not None}
        op = canonical_domain(node.domain) or LOCAL, node.op_type
        if op not in self._referring:
            return may_drop_windows(node.op_type, held) or has_ignored_pads(node.op_type, held)
        key = op, tuple(sorted((name, attribute.SerializeToString()) for name, attribute in held.items()))
        if key not in self._found:
            self._found[key] = any(
                self._is_miscounted(inner, {default.name: default for default in function.attribute_proto} | held)
                for function, referring in self._referring[op]
                for inner in referring
            )
        return self._found[key]


def refers(node: NodeProto) -> bool:
    """Whether an attribute of the node comes from the caller of its function."""
    return any(attribute.ref_attr_name for attribute in node.attribute)


def with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, and those in their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for _, graph in subgraphs(attribute):
                yield from with_inner(graph.node)


def hide_shapes(declared: onnx.TypeProto) -> None:
    """Remove the shape from the type of a tensor, or of the tensors in a sequence, an optional or a map."""
    for tensor in _tensors(declared):
        tensor.ClearField("shape")


def sizes_in(kind: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """Yield the sizes in the type of a tensor, or of the tensors in a sequence, an optional or a map."""
    for tensor in _tensors(kind):
        yield from tensor.shape.dim


def _tensors(kind: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor]:
    """Yield the type of a tensor, or that of the tensors in a sequence, an optional or a map."""
    held = kind.WhichOneof("value")
    if held in ("tensor_type", "sparse_tensor_type"):
        yield getattr(kind, held)
    elif held in ("sequence_type", "optional_type"):
        yield from _tensors(getattr(kind, held).elem_type)
    elif held == "map_type":
        yield from _tensors(kind.map_type.value_type)


COUNTED = ("AveragePool", "LpPool", "MaxPool")
"""Pools of ONNX, whose windows `ceil_mode` counts."""


def may_drop_windows(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether runtimes may make fewer windows of a pool than ONNX's shape inference counts.

    With `ceil_mode` the last window may start behind x and the padding before it. Runtimes drop that one, inference
    does not. It can only be there if stride + padding behind > effective kernel. A pool that cannot be read may drop.
    `held` are the attributes of the node, with the values that its function is given.
    """
    ceil, auto_pad = held.get("ceil_mode"), held.get("auto_pad")
    if op_type not in COUNTED or ceil is None or not ceil.i:
        return False
    if auto_pad is not None and auto_pad.s.startswith(b"SAME"):
        return False
    kernel = held["kernel_shape"].ints if "kernel_shape" in held else ()
    rank = len(kernel)
    strides, dilations = (held[name].ints if name in held else [1] * rank for name in ("strides", "dilations"))
    pads = held["pads"].ints if "pads" in held else [0] * 2 * rank
    if not rank or (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank):
        return True
    axes = zip(strides, pads[rank:], dilations, kernel, strict=True)
    return any(stride + end > dilation * (taps - 1) + 1 for stride, end, dilation, taps in axes)


def has_ignored_pads(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether runtimes ignore the `pads` of a pool, as `auto_pad` says another thing; ONNX's inference reads them.

    Runtimes refuse a Conv with both.
    """
    auto_pad = held.get("auto_pad")
    is_given = auto_pad is not None and not auto_pad.ref_attr_name and auto_pad.s not in (b"", b"NOTSET")
    return is_given and op_type in COUNTED and "pads" in held


def without_ignored_pads(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node, or a copy without `pads` if runtimes ignore them."""
    if not has_ignored_pads(node.op_type, {held.name: held for held in node.attribute}):
        return node
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    del copied.attribute[:]
    copied.attribute.extend(held for held in node.attribute if held.name != "pads")
    return copied
