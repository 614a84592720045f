# SPDX-License-Identifier: Apache-2.0

"""From a graph of torch to an ONNX model with named inputs and outputs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx
import onnx_ir as ir
import sympy
import torch
from onnx import NodeProto
from onnx_ir.passes.common import LiftConstantsToInitializersPass, ShapeInferencePass
from onnxscript import optimizer
from torch import Tensor
from torch import __version__ as torch_version

from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.model.ir.graphs import opset_of
from poolgrad_lowering.model.ir.order import Operands, depth_first, leaves, operands
from poolgrad_lowering.model.scalar_axes import declared_sizes, give_axes
from poolgrad_lowering.torch import scopes
from poolgrad_lowering.torch.corrections import correct
from poolgrad_lowering.torch.dynamic_shapes import SymbolicSizes
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import explained, sentence
from poolgrad_lowering.torch.internals.exporter import onnx_program
from poolgrad_lowering.torch.internals.modes import expected_logs_are_left_out
from poolgrad_lowering.torch.operators.indexing import OF_VIEWS

OLDEST_OPSET = 18
"""What torch exports without a conversion, which fails for most steps."""

_WORD = re.compile(r"\w+")
_UNKNOWN = "unk__"
"""How the names begin that torch's exporter gives to sizes of which it knows nothing."""


def empty(opset: int) -> onnx.ModelProto:
    """Return a model without nodes, as torch's exporter begins one."""
    return onnx.helper.make_model(
        onnx.helper.make_graph([], "main_graph", [], []),
        ir_version=10,
        producer_name="pytorch",
        producer_version=torch_version,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
    )


def finish(exported: onnx.ModelProto) -> None:
    """Correct and arrange what torch's exporter wrote. Raises `TorchExportError` if it is not valid ONNX then."""
    correct(exported)
    graph = exported.graph
    give_axes(graph, declared_sizes((*graph.input, *graph.value_info, *graph.output)))
    arrange(graph)
    try:
        onnx.checker.check_model(exported, full_check=True)
    except ONNX_ERRORS as error:
        raise TorchExportError(f"torch writes a model that is not valid ONNX: {sentence(error)}") from error


@expected_logs_are_left_out()
def translated(
    function: Callable[..., Sequence[Tensor]],
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    *,
    opset: int,
    sizes: SymbolicSizes | None = None,
) -> onnx.ModelProto:
    """Return the ONNX model of a function of the inputs, of which some may have symbolic sizes, before `finish`.

    Raises `TorchExportError`, which names the operator that torch cannot translate, or an opset below 18, for which
    torch would write opset 18 nevertheless.
    """
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise TorchExportError(
            f"opset is {opset}; torch exports {OLDEST_OPSET} or newer, and onnx has {newest} at most"
        )
    with (
        explained("torch cannot export it"),
        warnings.catch_warnings(),
        torch.autocast("cpu", enabled=False),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")  # about torch's own code
        program = onnx_program(_with_copies(function), inputs, outputs, opset, sizes or {}, OF_VIEWS)
    scopes.write(program.model, program.exported_program)
    # Fold what is constant, shapes above all. The own optimizer of the exporter also matches rules of rewriting, which
    # takes most of the time of a large export.
    optimizer.inline(program.model)
    for number, node in enumerate(node for node in program.model.graph if node.op_type in names.RANDOM):
        node.name = names.random(number)  # before those are removed that nothing reads
    optimizer.fold_constants(program.model)
    optimizer.remove_unused_nodes(program.model)
    optimizer.remove_unused_functions(program.model)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(program.model)
    if not all(value.dtype for node in program.model.graph for value in node.outputs):  # of functions that are inlined
        ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(program.model)
    simplify(program.model.graph)
    optimizer.remove_unused_nodes(program.model)
    exported = program.model_proto
    _name_symbols(exported, program.exported_program, sizes or {})
    del exported.graph.metadata_props[:]
    for value in (*exported.graph.value_info, *exported.graph.input, *exported.graph.output):
        del value.metadata_props[:]  # in which the exporter records its code
    if opset_of(exported) != opset:
        raise TorchExportError(
            f"opset is {opset}, and torch wrote {opset_of(exported)}, since it cannot convert the step"
        )
    return exported


def _with_copies(function: Callable[..., Sequence[Tensor]]) -> Callable[..., Sequence[Tensor]]:
    """Return a function whose 16-bit results are copies, since the exporter makes a sum that is an output float32."""
    halves = (torch.float16, torch.bfloat16)
    return lambda *inputs: tuple(value.clone() if value.dtype in halves else value for value in function(*inputs))


def simplify(graph: ir.Graph) -> None:
    """Remove Casts to the type that a value has, and join consecutive Transposes, or remove those that cancel.

    onnxruntime loses names at such Casts. Such Transposes are left behind by the gradients of matrix products.
    """
    for node in graph:
        source = node.inputs[0] if node.inputs else None
        if source is None or node.op_type not in ("Cast", "Transpose"):
            continue
        if node.op_type == "Cast":
            is_same = source.dtype == node.attributes["to"].as_int()
        else:
            order, before = _order(node), source.producer()
            if order and before is not None and (first := _order(before)) and before.inputs[0] is not None:
                source, order = before.inputs[0], [first[axis] for axis in order]
            is_same = order == sorted(order) != []
            if source is not node.inputs[0] and not is_same:
                node.replace_input_with(0, source)
                node.attributes["perm"] = ir.AttrInt64s("perm", order)
        result, is_output = node.outputs[0], node.outputs[0].is_graph_output()
        if is_same and not (is_output and (source.producer() is None or source.is_graph_output())):
            result.replace_all_uses_with(source, replace_graph_outputs=True)
            source.name = result.name if is_output else source.name
            graph.remove(node, safe=True)


def _order(node: ir.Node) -> list[int]:
    """Return the order of axes of a Transpose; none of another node, or where it is the default, the reverse one."""
    perm = node.attributes.get("perm") if node.op_type == "Transpose" else None
    return [] if perm is None else list(perm.as_ints())


def _name_symbols(exported: onnx.ModelProto, program: torch.export.ExportedProgram, sizes: SymbolicSizes) -> None:
    """Write the names of symbols in place of those by which torch calls what an input has only a multiple of."""
    placeholders = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    given = [placeholders[name] for name in program.graph_signature.user_inputs if isinstance(name, str)]
    names = {
        str(own): size.symbol.name
        for value, tensor in zip(exported.graph.input, given, strict=True)
        for axis, size in sizes.get(value.name, {}).items()
        for own in tensor.shape[axis].node.expr.free_symbols
    }
    for value in (*exported.graph.input, *exported.graph.output, *exported.graph.value_info) if names else ():
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param.startswith(_UNKNOWN):
                dim.ClearField("dim_param")
            elif dim.HasField("dim_param"):
                named = _WORD.sub(lambda word: names.get(word[0], word[0]), dim.dim_param)
                dim.dim_param = _divided(named, set(names.values())) if "//" in named else named


def _divided(size: str, symbols: Iterable[str]) -> str:
    """Return s for (s**2)//s, as torch writes what a view leaves to -1; a quotient with a remainder as it is."""
    aliases = {name: f"size{number}" for number, name in enumerate(symbols)}  # names may be keywords of Python
    text = _WORD.sub(lambda word: aliases.get(word[0], word[0]), size)
    known = {alias: sympy.Symbol(name, integer=True, positive=True) for name, alias in aliases.items()}
    quotient = sympy.sympify(text, known)
    return size if quotient.has(sympy.floor) else str(quotient)


def arrange(graph: onnx.GraphProto) -> None:
    """Order the nodes of a step, in place, such that its pools run one after the other where they can.

    The order decides into how many parts onnxruntime divides the step. A provider that compiles whole parts of a graph,
    as the CANN provider does, gets the runs of its nodes between nodes of other providers, in the order in which
    onnxruntime runs a graph (`ge.order`); the nodes of pools go to another provider. So onnxruntime first runs what has
    the most pools behind it: in an Inception module, for example, the branch with the pool, which then runs right after
    the pool before the module.
    """
    nodes = list(graph.node)
    read = operands(nodes)
    behind = _pools_behind(nodes, read)

    def last_first(positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda position: (behind[position], position))

    # `ge.order.session_order` turns round what it finds in the file, so what it is to visit first is written last.
    order = depth_first(read, last_first(leaves(read)), last_first)
    del graph.node[:]
    graph.node.extend(nodes[position] for position in order)


def _pools_behind(nodes: Sequence[NodeProto], read: Operands) -> list[int]:
    """Return for each node the number of pools, and of gradients of pools, that its results depend on."""
    ancestors = [0] * len(nodes)  # sets of positions, as bits
    for position, node in enumerate(nodes):
        ancestors[position] = 1 << position if _is_of_a_pool(node) else 0
        for operand in read[position]:
            ancestors[position] |= ancestors[operand]
    return [found.bit_count() for found in ancestors]


def _is_of_a_pool(node: NodeProto) -> bool:
    """Whether a node is a max pool, or adds to elements, as the gradient of one does."""
    adds = any(attribute.name == "reduction" and attribute.s == b"add" for attribute in node.attribute)
    return node.op_type == "MaxPool" or adds
