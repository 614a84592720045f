# SPDX-License-Identifier: Apache-2.0

"""All of torch's ONNX exporter that is not public and that this package uses. A test says when torch moves it.

`torch.onnx.export` traces a function twice, runs its graph for the types of operands, and translates it. A step has no
control flow, and its operators are in the graph already as they are translated. So one trace and the translation give
the same model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import onnx_ir as ir
import torch
from onnx.defs import get_schema
from onnx_ir.schemas import OpSignature
from onnxscript import version_converter
from torch import Tensor, fx
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.onnx import ONNXProgram
from torch.onnx._internal.exporter import _building, _core, _decomp, _ir_passes
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.onnx._internal.fx.passes import InsertTypePromotion
from torch.onnx._internal.fx.passes.type_promotion import (
    TypePromotionTable,
    _TypePromotionInterpreter,
    get_type_promotion_rule,
)
from torch.utils._pytree import tree_structure

from poolgrad_lowering.torch.dynamic_shapes import SymbolicSizes
from poolgrad_lowering.torch.internals.tracing import trace
from poolgrad_lowering.torch.own_gradients import GRADIENTS
from poolgrad_lowering.torch.own_operators import OPERATORS

TRANSLATIONS = {**OPERATORS, **GRADIENTS}
"""The functions that write the operators of this package as nodes, and one of torch's."""


@functools.cache
def _translation() -> tuple[ONNXRegistry, Mapping[Any, Callable[..., Any]]]:
    """Return torch's translations of operators, with those of this package, and the decompositions of all others."""
    registry = ONNXRegistry.from_torchlib()
    for operator, write in TRANSLATIONS.items():
        registry.register_op(operator, write, is_complex=False)
    translated = set(_decomp.get_onnx_implemented_overloads(registry))
    return registry, _decomp.create_onnx_friendly_decomposition_table(translated)


def onnx_program(
    function: Callable[..., Sequence[Tensor]],
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    opset: int,
    sizes: SymbolicSizes,
    of_views: Mapping[Any, Callable[..., Any]],
) -> ONNXProgram:
    """Return what `torch.onnx.export` returns, without its optimizer. Raises what the trace and the translation raise.

    Symbolic sizes are read of tensors that have them (`sizes`), and not computed. What no output reads is left out:
    asserts, and what the function writes to its inputs. `of_views` are decompositions of writes to views of tensors,
    which are operators of their own only here.
    """
    registry, decompositions = _translation()
    functional = torch.func.functionalize(function, remove="mutations")
    graph = trace(functional, inputs, sizes, {**decompositions, **of_views}, {})
    _compute_results(graph.graph)
    graph.graph.eliminate_dead_code(_stays)
    promotion = InsertTypePromotion(graph)
    promotion.interpreter = _Promotion(graph, TypePromotionTable())
    promotion.run()
    has_doubles = any(getattr(node.meta.get("val"), "dtype", None) == torch.float64 for node in graph.graph.nodes)
    with (
        patch.object(OpSignature, "from_op_schema", lambda s: _signature(s.name, s.since_version, s.domain)),
        patch.object(_building, "_process_python_constants", _as_doubles if has_doubles else _write_numbers),
    ):
        program = _core._exported_program_to_onnx_program(_exported(graph), registry=registry)  # noqa: SLF001
    if opset != registry.opset_version:
        version_converter.convert_version(program.model, opset, fallback=True)
    _ir_passes.rename_inputs(program.model, list(inputs))
    _ir_passes.rename_outputs(program.model, list(outputs))
    return program


def _stays(node: fx.Node) -> bool:
    """Whether a node stays that no other reads: random numbers have the order in which PyTorch draws them."""
    return node.op in {"placeholder", "output"} or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _compute_results(graph: fx.Graph) -> None:
    """Copy the results of a graph that it does not compute, and those that are another result too."""
    output = graph.output_node()
    (results,) = output.args
    found: list[fx.Node] = []
    for node in results:
        if node.op == "call_function" and node not in found:
            found.append(node)
            continue
        with graph.inserting_before(output):
            found.append(graph.call_function(torch.ops.aten.clone.default, (node,)))
        found[-1].meta["val"] = node.meta["val"]
    output.args = (tuple(found),)


_read_signature = OpSignature.from_op_schema


@functools.cache
def _signature(name: str, version: int, domain: str) -> OpSignature:
    """Return what the exporter reads from the schema of an operator for each node, which takes a tenth of its time."""
    return _read_signature(get_schema(name, version, domain))


_write_numbers = _building._process_python_constants  # noqa: SLF001
_OF_ANY_TYPE = {"Cast", "CastLike", "Pow"}


def _as_doubles(signature: OpSignature, operands: dict[str, Any], types: Mapping[Any, Any], *others: Any) -> Any:
    """Write the numbers among operands as constants: in float64 where their type is free, and torch takes float32."""
    if signature.name in _OF_ANY_TYPE:
        numbers = [name for name, operand in operands.items() if isinstance(operand, float)]
        double = ir.TensorType(ir.DataType.DOUBLE)
        free = [parameter.type_constraint for parameter in signature.inputs if parameter.name in numbers]
        types = {**dict.fromkeys(free, double), **types}
    return _write_numbers(signature, operands, types, *others)


class _Promotion(_TypePromotionInterpreter):
    """Converts operands to the type of their operator, from the types that the trace has noted."""

    def run_node(self, n: fx.Node) -> Any:
        """Convert the operands of a node, and return the tensor that the trace has noted for its result."""
        if n.op != "call_function":
            return super().run_node(n)
        with self._set_current_node(n):
            if rule := get_type_promotion_rule(n, self.type_promotion_table):
                self._maybe_promote_node(n, rule)
        return n.meta["val"]


def _exported(graph: fx.GraphModule) -> ExportedProgram:
    """Return a traced graph as a program whose outputs are all the user's. Its constants become inputs."""
    constants = _constants_as_inputs(graph)
    given = list(graph.graph.find_nodes(op="placeholder"))
    for node in graph.graph.nodes:
        node.meta.setdefault("nn_module_stack", {"": ("", "")})  # the exporter warns of nodes that have none
    (results,) = graph.graph.output_node().args
    signature = ExportGraphSignature(
        [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
            if node.name in constants
            else InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)
            for node in given
        ],
        [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results],
    )
    structures = tree_structure(((0,) * (len(given) - len(constants)), {})), tree_structure((0,) * len(results))
    entry = ModuleCallEntry("", ModuleCallSignature([], [], *structures))
    return ExportedProgram(graph, graph.graph, signature, {}, {}, [entry], constants=constants)


def _constants_as_inputs(graph: fx.GraphModule) -> dict[str, Tensor]:
    """Replace the constants of a graph by inputs, which precede the others, and return their values by name."""
    first = next(iter(graph.graph.nodes))
    found: dict[str, Tensor] = {}
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, node.target)
        with graph.graph.inserting_before(first):
            held = graph.graph.placeholder(f"constant_{len(found)}")
        held.meta = {"val": value}
        found[held.name] = value
        node.replace_all_uses_with(held)
        graph.graph.erase_node(node)
    return found
