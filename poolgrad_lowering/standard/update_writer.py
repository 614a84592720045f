# SPDX-License-Identifier: Apache-2.0

"""Appends the updates of all weights to the graph of a step."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, TensorProto, helper

from poolgrad_lowering.model.diagnostics.errors import FileError
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.bodies import BodyNode, Tensor, joined, where
from poolgrad_lowering.model.joint_updates import side_by_side
from poolgrad_lowering.standard.artifact_graphs import Update
from poolgrad_lowering.standard.inline import Inliner
from poolgrad_lowering.standard.optimizers import Tensors, clipped

Array = npt.NDArray[Any]


class UpdateWriter:
    """Appends the updates of all weights to a graph."""

    def __init__(
        self, graph: GraphProto, inliner: Inliner, update: Update, reserved: Collection[str], *, accumulate: bool
    ) -> None:
        self.state: dict[str, Array] = {}
        self._reserved = reserved
        self._graph = graph
        self._inliner = inliner
        self._update = update
        self._accumulate = accumulate

    def write(self, shapes: Mapping[str, list[int]], gradients: Mapping[str, str]) -> None:
        """Write the updates of the weights with these shapes and gradients."""
        self._input(names.LEARNING_RATE, [])
        if self._accumulate:
            self._input(names.UPDATE, [], TensorProto.BOOL)
            gradients = {name: self._summed(name, shapes[name], gradient) for name, gradient in gradients.items()}
        if self._update.most is not None:
            gradients = self._clipped(gradients, self._update.most)
        factors = self._factors()
        for name, shape in shapes.items():
            for value in self._of(name).values():
                if value != names.weight(name):
                    self._state(value, np.zeros(shape, np.float32))
                self._output(names.new(value), shape)
        for together in side_by_side(shapes):
            self._write_update(together, [math.prod(shapes[name]) for name in together], gradients, factors)

    def _of(self, name: str) -> dict[str, str]:
        """Return the inputs of a weight that its update changes, by the names that the optimizer has for them."""
        return {
            "weight": names.weight(name),
            **{slot: names.state(slot, name) for slot in self._update.optimizer.slots},
        }

    def _write_update(
        self,
        together: Sequence[str],
        counts: Sequence[int],
        gradients: Mapping[str, str],
        factors: Mapping[str, str],
    ) -> None:
        """Write the update of a weight, or of several vectors side by side, of which `counts` are the elements."""
        each = [{**self._of(name), "gradient": gradients[name]} for name in together]
        read = {actual for own in (*each, factors) for actual in own.values()} | {names.UPDATE}
        tensors = tensors_of({actual: actual for actual in read})
        given = {name: tensors[actual] for name, actual in (*factors.items(), ("update", names.UPDATE))}
        for name in each[0]:
            parts = [tensors[own[name]] for own in each]
            given[name] = joined(parts, 0)
        results = self._chosen(given, self._update.optimizer.update(given))
        outputs = {
            names.new(own[name]): part
            for name in self._of("")
            for own, part in zip(each, results[f"new_{name}"].split(0, counts), strict=True)
        }
        self._write_nodes(f"update/{together[0]}", outputs)

    def _summed(self, name: str, shape: list[int], gradient: str) -> str:
        """Add a gradient to those that are kept; return the sum. After an update the kept ones are zeros."""
        kept, total = names.state(names.ACCUMULATED, name), f"update/{name}/gradient"
        self._state(kept, np.zeros(shape, np.float32))
        given = tensors_of({"kept": kept, "gradient": gradient, "update": names.UPDATE})
        new = given["kept"] + given["gradient"]
        self._write_nodes(f"update/{name}", {total: new, names.new(kept): where(given["update"], 0, new)})
        self._output(names.new(kept), shape)
        return total

    def _clipped(self, gradients: Mapping[str, str], most: float) -> dict[str, str]:
        outputs = {name: f"update/{name}/clipped" for name in gradients}
        results = clipped([*tensors_of(gradients).values()], most)
        self._write_nodes("update/clip", dict(zip(outputs.values(), results, strict=True)))
        return outputs

    def _factors(self) -> dict[str, str]:
        """Write what all updates share; return its names by those in the body of an update."""
        optimizer, inputs = self._update.optimizer, {"rate": names.LEARNING_RATE}
        if optimizer.slots:
            self._state(names.STEPS, np.array(0, np.float32))
            inputs["steps"] = "update/steps"
            given = tensors_of({"steps": names.STEPS})
            self._write_nodes("update/count", {inputs["steps"]: given["steps"] + 1})
            given = tensors_of({"counted": inputs["steps"], "steps": names.STEPS, "update": names.UPDATE})
            results = self._chosen(given, {"new_steps": given["counted"]})
            self._write_nodes("update/kept", {names.new(names.STEPS): results["new_steps"]})
            self._output(names.new(names.STEPS), [])
        factors = optimizer.factors(tensors_of(inputs))
        self._write_nodes("update", {f"update/{name}": factor for name, factor in factors.items()})
        return {name: f"update/{name}" for name in factors}

    def _chosen(self, given: Tensors, results: Tensors) -> Tensors:
        """Return the new values of inputs, `new_<input>`; with accumulation, the old ones where `update` is false."""
        if not self._accumulate:
            return results
        return {new: where(given["update"], result, given[new.removeprefix("new_")]) for new, result in results.items()}

    def _write_nodes(self, prefix: str, results: Mapping[str, Tensor]) -> None:
        self._graph.node.extend(self._inliner.nodes(prefix, results))

    def _state(self, name: str, first: Array) -> None:
        self._input(name, list(first.shape))
        self.state[name] = first

    def _input(self, name: str, shape: list[int], element_type: int = TensorProto.FLOAT) -> None:
        claim(name, self._reserved)
        self._graph.input.append(helper.make_tensor_value_info(name, element_type, shape))

    def _output(self, name: str, shape: list[int]) -> None:
        claim(name, self._reserved)
        self._graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


def tensors_of(given: Mapping[str, str]) -> dict[str, Tensor]:
    """Return float32 tensors of the graph as those of one body."""
    nodes: list[BodyNode] = []
    return {name: Tensor(nodes, actual, TensorProto.FLOAT) for name, actual in given.items()}


def claim(name: str, reserved: Collection[str]) -> None:
    """Raise `FileError` if the training model has a name that a step has for itself."""
    if name in reserved:
        raise FileError(f"the training model has the name '{name}', which a step has for itself: give it another one")
