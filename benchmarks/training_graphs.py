# SPDX-License-Identifier: Apache-2.0

"""Builds large training graphs from a recipe: max-pool gradients, decoys that resemble them, and filler nodes.

Every model is valid, deterministic and has static shapes; names are as long as those of exporters. Knows nothing of
what is measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 18
PLANES, PLANE, POOLED = [8, 16], [32, 32], [16, 16]
WHOLE, SMALL = PLANES + PLANE, PLANES + POOLED
WINDOWS = {"kernel_shape": [2, 2], "strides": [2, 2]}


@dataclass(frozen=True)
class Recipe:
    """The numbers of things in a model.

    `nodes` counts all nodes. Half of the `sites` and of the `decoys` are `MaxPoolGrad` nodes, half scatters onto zeros.
    `subgraphs` are branches of If nodes with ten nodes each, `functions` are bodies of ten nodes that the model calls
    once each. `declared` is the share of the main graph's values that have a value_info; a gradient whose shapes depend
    on an undeclared result of a `MaxPoolGrad`, which ONNX does not define, is refused.
    """

    nodes: int
    sites: int = 0
    decoys: int = 0
    subgraphs: int = 0
    functions: int = 0
    declared: float = 1.0
    seed: int = 1

    @classmethod
    def of_size(cls, nodes: int) -> Recipe:
        """The recipe in which 1 % of the nodes are gradients, and as many are decoys."""
        return cls(nodes, sites=nodes // 100, decoys=nodes // 100)


def build(recipe: Recipe) -> ModelProto:
    """The model of a recipe. Equal recipes give equal bytes. Raises `ValueError` if `nodes` is too small."""
    return _Writer(recipe).model()


class _Writer:
    """Writes a chain of nodes in which each uses the value before it, so that no node is dead."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._random = random.Random(recipe.seed)
        self._nodes: list[NodeProto] = []
        self._shapes: dict[str, tuple[int, Sequence[int]]] = {}
        self._functions: list[FunctionProto] = []
        self._initializers = [_tensor(name, values) for name, values in _CONSTANTS.items()]
        self._last = "pixel_values"
        self._recent = [self._last]

    def model(self) -> ModelProto:
        """The model of the recipe, with the special nodes spread evenly among the filler nodes."""
        for special in self._specials():
            special()
        graph = helper.make_graph(
            self._nodes,
            "training_graph",
            [
                helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, WHOLE),
                helper.make_tensor_value_info("training_mode", TensorProto.BOOL, []),
            ],
            [helper.make_tensor_value_info(self._last, TensorProto.FLOAT, WHOLE)],
            self._initializers,
            value_info=[
                helper.make_tensor_value_info(name, *held)
                for name, held in self._shapes.items()
                if name != self._last and self._random.random() < self._recipe.declared
            ],
        )
        imports = [helper.make_opsetid("", OPSET), *([_IMPORT] if self._functions else [])]
        return helper.make_model(graph, opset_imports=imports, functions=self._functions, ir_version=10)

    def _specials(self) -> list[Callable[[], None]]:
        """The functions that write the special nodes in a random order, each followed by its share of filler nodes."""
        recipe = self._recipe
        kinds = [
            *[self._ort_gradient] * (recipe.sites - recipe.sites // 2),
            *[self._scatter_gradient] * (recipe.sites // 2),
            *[self._altered_indices] * (recipe.decoys - recipe.decoys // 2),
            *[self._scatter_onto_ones] * (recipe.decoys // 2),
            *[self._branches] * (recipe.subgraphs // 2),
            *[self._call] * recipe.functions,
        ]
        self._random.shuffle(kinds)
        filler = recipe.nodes - sum(_SIZES[kind.__name__] for kind in kinds)
        if filler < 1:
            raise ValueError(f"{recipe} has no room for filler: {-filler} nodes too many")
        kinds = kinds or [lambda: None]
        share, rest = divmod(filler, len(kinds))

        def followed(kind: Callable[[], None], count: int) -> Callable[[], None]:
            def write() -> None:
                kind()
                for _ in range(count):
                    self._filler()

            return write

        return [followed(kind, share + (number < rest)) for number, kind in enumerate(kinds)]

    # -- filler nodes

    def _filler(self) -> None:
        op_type, weights, attributes = self._random.choice(_FILLER)
        operands = [self._last]
        if op_type in _BINARY:
            operands.append(self._random.choice(self._recent))
        name = self._place(op_type)
        for weight, values in weights.items():
            self._initializers.append(_tensor(f"{name}.{weight}", values))
            operands.append(f"{name}.{weight}")
        self._advance(self._write(op_type, operands, WHOLE, name=name, **attributes))

    # -- gradients and decoys

    def _ort_gradient(self) -> None:
        pooled, indices = self._pool()
        self._join(self._write("MaxPoolGrad", [self._incoming(pooled), indices], WHOLE, **WINDOWS))

    def _altered_indices(self) -> None:
        pooled, indices = self._pool()
        altered = self._write("Add", [indices, "one"], SMALL, TensorProto.INT64)
        self._join(self._write("MaxPoolGrad", [self._incoming(pooled), altered], WHOLE, **WINDOWS))

    def _scatter_gradient(self) -> None:
        self._scatter("zero")

    def _scatter_onto_ones(self) -> None:
        self._scatter("ones")

    def _scatter(self, base: str) -> None:
        pooled, indices = self._pool()
        grad = self._incoming(pooled)
        _, each = self._pool(kernel_shape=[1, 1])
        first = self._write("Slice", [each, "starts", "ends", "axes"], [*PLANES, 1, 1], TensorProto.INT64)
        local = self._write("Sub", [indices, first], SMALL, TensorProto.INT64)
        planes, plane, count = (int(np.prod(sizes)) for sizes in (PLANES, PLANE, POOLED))
        rows = self._write("Reshape", [local, "rows"], [planes, count], TensorProto.INT64)
        updates = self._write("Reshape", [grad, "rows"], [planes, count])
        canvas = self._write("Expand", [base, "canvas"], [planes, plane])
        scattered = self._write("ScatterElements", [canvas, rows, updates], [planes, plane], axis=1, reduction="add")
        self._join(self._write("Reshape", [scattered, "whole"], WHOLE))

    def _pool(self, **windows: Sequence[int]) -> tuple[str, str]:
        """The outputs of a new MaxPool, by default with the gradients' windows."""
        shape = WHOLE if windows else SMALL
        pooled = self._write("MaxPool", [self._last], shape, **(windows or WINDOWS))
        indices = pooled.replace("_output_0", "_output_1")
        self._nodes[-1].output.append(indices)
        self._shapes[indices] = (TensorProto.INT64, shape)
        return pooled, indices

    def _incoming(self, pooled: str) -> str:
        return self._write("Sigmoid", [pooled], SMALL)

    def _join(self, gradient: str) -> None:
        self._advance(self._write("Add", [self._last, gradient], WHOLE))

    # -- subgraphs and functions

    def _branches(self) -> None:
        place = self._place("If")
        branches = {}
        for branch in ("then_branch", "else_branch"):
            nodes = _chain(self._last, f"{place}/{branch}")
            output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, WHOLE)
            branches[branch] = helper.make_graph(nodes, branch, [], [output])
        self._advance(self._write("If", ["training_mode"], WHOLE, name=place, **branches))

    def _call(self) -> None:
        name = f"encoder_block_{len(self._functions)}"
        nodes = _chain("hidden_states", f"/{name}")
        imports = [helper.make_opsetid("", OPSET)]
        self._functions.append(
            helper.make_function(_IMPORT.domain, name, ["hidden_states"], [nodes[-1].output[0]], nodes, imports)
        )
        self._advance(self._write(name, [self._last], WHOLE, domain=_IMPORT.domain))

    # -- nodes

    def _write(
        self,
        op_type: str,
        operands: Sequence[str],
        shape: Sequence[int],
        element_type: int = TensorProto.FLOAT,
        *,
        name: str | None = None,
        **attributes: object,
    ) -> str:
        name = name or self._place(op_type)
        output = f"{name}_output_0"
        self._nodes.append(helper.make_node(op_type, operands, [output], name=name, **attributes))
        self._shapes[output] = (element_type, shape)
        return output

    def _place(self, op_type: str) -> str:
        number = len(self._nodes)
        return f"/model/encoder/layers.{number // 100}/residual_block.{number // 10 % 10}/{op_type}_{number}"

    def _advance(self, value: str) -> None:
        self._last = value
        self._recent = [*self._recent[-15:], value]


_SIZES = {
    "_ort_gradient": 4,
    "_altered_indices": 5,
    "_scatter_gradient": 11,
    "_scatter_onto_ones": 11,
    "_branches": 21,
    "_call": 11,
}
"""The number of nodes that each of these methods of the writer adds to the model, subgraphs and functions included."""

_IMPORT = helper.make_opsetid("example.blocks", 1)
_BINARY = ("Add", "Mul", "Sub", "Max")
_VECTOR = np.ones(PLANES[1], np.float32)
_STATISTICS = {"weight": _VECTOR, "bias": _VECTOR, "running_mean": _VECTOR, "running_var": _VECTOR}
_CONVOLUTION = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3], "strides": [1, 1], "group": PLANES[1]}
_FILLER: list[tuple[str, dict[str, np.ndarray], dict[str, object]]] = [
    *[(op_type, {}, {}) for op_type in ("Relu", "Sigmoid", "Tanh", "Abs", "Erf", "Sqrt", "Neg", *_BINARY * 2) * 4],
    ("LeakyRelu", {}, {"alpha": 0.1}),
    ("Conv", {"weight": np.ones([PLANES[1], 1, 3, 3], np.float32), "bias": _VECTOR}, _CONVOLUTION),
    ("BatchNormalization", _STATISTICS, {"epsilon": 1e-5, "momentum": 0.9}),
    ("Transpose", {}, {"perm": [0, 1, 3, 2]}),
    ("Softmax", {}, {"axis": -1}),
]
"""Operators that keep the shape: type, weights, attributes."""

_CONSTANTS: dict[str, np.ndarray] = {
    "one": np.array(1, np.int64),
    "zero": np.array(0, np.float32),
    "ones": np.array(1, np.float32),
    "starts": np.array([0, 0], np.int64),
    "ends": np.array([1, 1], np.int64),
    "axes": np.array([2, 3], np.int64),
    "rows": np.array([np.prod(PLANES), np.prod(POOLED)], np.int64),
    "canvas": np.array([np.prod(PLANES), np.prod(PLANE)], np.int64),
    "whole": np.array(WHOLE, np.int64),
}


def _chain(source: str, prefix: str, length: int = 10) -> list[NodeProto]:
    """A chain of nodes, for the body of a branch or a function."""
    names = [source, *(f"{prefix}/Relu_{number}_output_0" for number in range(length))]
    return [
        helper.make_node("Relu", [before], [after], name=after.removesuffix("_output_0"))
        for before, after in pairwise(names)
    ]


def _tensor(name: str, values: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(values, name)
