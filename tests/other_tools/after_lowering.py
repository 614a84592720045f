# SPDX-License-Identifier: Apache-2.0

"""What other packages' tools do to a lowered model, at their default settings: the table of the tests and of the page.

Each tool is imported when it is used: the page is generated where they are not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from tests.pool_graphs import ort_gradient, torch_gradient

_ROOT = Path(__file__).parents[2]

VERSIONS = {
    "netron": "9.3.3",
    "onnx": "1.23.2",
    "onnx-ir": "1.1.0",
    "onnxconverter-common": "1.16.0",
    "onnxoptimizer": "0.4.2",
    "onnxruntime": "1.32.0",
    "onnxscript": "0.7.2",
    "onnxsim": "0.8.1",
    "onnxslim": "0.1.98",
    "protobuf": "7.36.2",
}
"""The releases with which the table was written. The tests run with these or newer ones."""


class Outcome(Enum):
    """What is left of a lowered model, and the warning that `inspect` gives."""

    KEPT = None
    INLINED = NoteCode.INLINED_BODIES
    STRIPPED = NoteCode.NO_BODIES
    RENAMED = NoteCode.RENAMED_OPERATORS
    MISTYPED = NoteCode.MISTYPED_BODIES
    FAILS = "fails"

    @property
    def runs_on_cpu(self) -> bool:
        """Whether plain onnxruntime runs the model, with the bits of the lowered one."""
        return self in (Outcome.KEPT, Outcome.INLINED, Outcome.RENAMED)


OUTCOMES = {
    Outcome.KEPT: ("kept", "the same nodes of domain `npu`, with bodies", "the same bits", "runs every `npu` node", ""),
    Outcome.INLINED: (
        "inlined", "the nodes of the bodies, no node of domain `npu`", "the same bits",
        "runs nothing; `create_session` warns", "`inlined-bodies`"),
    Outcome.STRIPPED: (
        "stripped", "the nodes of domain `npu` without bodies", "does not load",
        "does not load; the error has the cause", "`no-bodies`"),
    Outcome.RENAMED: (
        "renamed", "nodes and bodies under names that the dialect does not have", "the same bits",
        "runs nothing; `create_session` warns", "`renamed-operators`"),
    Outcome.MISTYPED: (
        "mistyped", "nodes of float16 with bodies for float32", "does not load",
        "does not load; the error has the cause", "`mistyped-bodies`"),
    Outcome.FAILS: ("fails", "no model: the tool raises an error", "", "", ""),
}  # fmt: skip
"""The columns of the page: name, what is left, plain onnxruntime, the execution provider, the warning of `inspect`."""


class Verified(Enum):
    """What `verify` says of the original and the model that the tool left, of all models the least."""

    PROVEN = "proven"
    SITES = "sites proven"
    UNPROVEN = "not proven"


Apply = Callable[[ModelProto, Path], ModelProto]
"""A tool: takes a model that it may change and an empty folder, and returns the model that it leaves."""


@dataclass(frozen=True)
class Tool:
    """A tool by the call of it, its package, and what it does; `but` has the models for which it does otherwise.

    `refuses` are the models that it does not take, lowered or not. `changes_values`: it is meant to, so its result is
    compared with the lowering of what it makes of the original.
    """

    call: str
    package: str
    apply: Apply
    outcome: Outcome
    verified: Verified = Verified.UNPROVEN
    remark: str = ""
    but: Mapping[str, Outcome] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()
    changes_values: bool = False


@lru_cache
def models() -> dict[str, tuple[ModelProto, ModelProto]]:
    """The original and the lowered model of each name."""
    planes = torch_gradient([2, 3, 8, 8], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    volumes = torch_gradient([1, 2, 6, 6, 6], kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    half = ort_gradient([2, 3, 8, 8], opset=18, dtype="float16", kernel_shape=[3, 3], strides=[2, 2])
    adaptive = onnx.parser.parse_model(
        (_ROOT / "docs" / "examples" / "aten_adaptive_max_pool_grad.onnxtxt").read_text(encoding="utf-8")
    )
    lenet = onnx.load(_ROOT / "models" / "built" / "torch" / "lenet.onnx")
    return {
        "2-D": (planes, lower(planes).model),
        "2-D on Ascend 950": (planes, lower(planes, target="ascend950").model),
        "gradient alone": (planes, lower(planes, forward=False).model),
        "3-D": (volumes, lower(volumes).model),
        "adaptive": (adaptive, lower(adaptive).model),
        "float16": (half, lower(half).model),
        "LeNet": (lenet, lower(lenet).model),
    }


def _optimised_offline(level: str) -> Apply:
    def apply(model: ModelProto, folder: Path) -> ModelProto:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(folder / "optimised.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(folder / "optimised.onnx")

    return apply


def _by_files(change: Callable[[str, str], Any]) -> Apply:
    """A tool that reads one file and writes another."""

    def apply(model: ModelProto, folder: Path) -> ModelProto:
        before, after = folder / "before.onnx", folder / "after.onnx"
        onnx.save(model, before)
        change(str(before), str(after))
        return onnx.load(after)

    return apply


def _in_format(name: str) -> Apply:
    def apply(model: ModelProto, folder: Path) -> ModelProto:
        onnx.save(model, folder / f"model.{name}", format=name)
        return onnx.load(folder / f"model.{name}", format=name)

    return apply


def _inline(model: ModelProto, _: Path) -> ModelProto:
    import onnx.inliner

    return onnx.inliner.inline_local_functions(model)


def _convert_version(model: ModelProto, _: Path) -> ModelProto:
    import onnx.version_converter

    return onnx.version_converter.convert_version(model, 21)


def _add_prefix(model: ModelProto, _: Path) -> ModelProto:
    import onnx.compose

    return onnx.compose.add_prefix(model, "first_")


def _merge(model: ModelProto, _: Path) -> ModelProto:
    """Put another model behind the last output, which keeps its place."""
    import onnx.compose

    [*_others, result] = model.graph.output
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["before"], ["after"])],
        "behind",
        [onnx.helper.make_value_info("before", result.type)],
        [onnx.helper.make_value_info("after", result.type)],
    )
    behind = onnx.helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    return onnx.compose.merge_models(model, behind, [(result.name, "before")])


def _extract(before: str, after: str) -> None:
    import onnx.utils

    graph = onnx.load(before).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value.name for value in graph.input if value.name not in stored]
    onnx.utils.extract_model(before, after, inputs, [value.name for value in graph.output])


def _external(model: ModelProto, folder: Path) -> ModelProto:
    from onnx.external_data_helper import convert_model_to_external_data

    convert_model_to_external_data(model, location="weights.data", size_threshold=0)
    onnx.save(model, folder / "external.onnx")
    return onnx.load(folder / "external.onnx")


def _through_json(model: ModelProto, _: Path) -> ModelProto:
    from google.protobuf import json_format

    return json_format.Parse(json_format.MessageToJson(model), ModelProto())


def _infer_symbolically(model: ModelProto, _: Path) -> ModelProto:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    return SymbolicShapeInference.infer_shapes(model)


def _quantise(before: str, after: str) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(before, after)


def _prepare_quantisation(before: str, after: str) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(before, after)


def _halve_by_onnxruntime(model: ModelProto, _: Path) -> ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(model)


def _halve(model: ModelProto, _: Path) -> ModelProto:
    from onnxconverter_common.float16 import convert_float_to_float16

    return convert_float_to_float16(model)


def _optimise_by_onnxscript(**options: bool) -> Apply:
    def apply(model: ModelProto, _: Path) -> ModelProto:
        import onnxscript.optimizer

        return onnxscript.optimizer.optimize(model, **options)

    return apply


def _convert_by_onnxscript(model: ModelProto, _: Path) -> ModelProto:
    import onnxscript.version_converter

    onnxscript.version_converter.convert_version(model, target_version=21)
    return model


def _through_onnx_ir(before: str, after: str) -> None:
    import onnx_ir

    onnx_ir.save(onnx_ir.load(before), after)


def _onnx_ir_pass(*names: str) -> Apply:
    def apply(model: ModelProto, _: Path) -> ModelProto:
        import onnx_ir
        from onnx_ir.passes import common

        passes = onnx_ir.passes.Sequential(*(getattr(common, name)() for name in names))
        return onnx_ir.to_proto(passes(onnx_ir.from_proto(model)).model)

    return apply


def _slim(model: ModelProto, _: Path) -> ModelProto:
    import onnxslim

    return onnxslim.slim(model)


def _simplify(model: ModelProto, _: Path) -> ModelProto:
    import onnxsim

    simplified, checked = onnxsim.simplify(model)
    if not checked:
        raise RuntimeError("onnxsim's own check failed")
    return simplified


def _optimise(model: ModelProto, _: Path) -> ModelProto:
    import onnxoptimizer

    return onnxoptimizer.optimize(model)


_FUSED = "Writes operators of domain `com.microsoft`, too."

TOOLS = (
    Tool("`onnx.load`, `onnx.save` as protobuf text", "onnx", _in_format("textproto"), Outcome.KEPT, Verified.PROVEN),
    Tool("`onnx.load`, `onnx.save` as JSON", "onnx", _in_format("json"), Outcome.KEPT, Verified.PROVEN),
    Tool("`json_format`", "protobuf", _through_json, Outcome.KEPT, Verified.PROVEN),
    Tool(
        "`onnx.parser.parse_model(onnx.printer.to_text(…))`",
        "onnx",
        lambda model, _: onnx.parser.parse_model(onnx.printer.to_text(model)),
        Outcome.KEPT,
        Verified.SITES,
        "Loses defaults of attributes, which no node needs. onnx 1.19 cannot read back constants of float16, lowered "
        "or not.",
    ),
    Tool("`onnx.external_data_helper.convert_model_to_external_data`", "onnx", _external, Outcome.KEPT, Verified.SITES),
    Tool(
        "`onnx.shape_inference.infer_shapes`", "onnx", lambda model, _: onnx.shape_inference.infer_shapes(model),
        Outcome.KEPT, Verified.SITES),
    Tool(
        "the same with `strict_mode=True, data_prop=True`", "onnx",
        lambda model, _: onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True), Outcome.KEPT,
        Verified.SITES, "Fails for adaptive pools, with a wrong shape for a value of their body.",
        {"adaptive": Outcome.FAILS}),
    Tool("`onnx.utils.extract_model`", "onnx", _by_files(_extract), Outcome.KEPT, Verified.SITES),
    Tool("`onnx.compose.merge_models`", "onnx", _merge, Outcome.KEPT, Verified.SITES, "Without `prefix1`, `prefix2`."),
    Tool("`onnx.compose.add_prefix`", "onnx", _add_prefix, Outcome.RENAMED, remark="Renames functions, too."),
    Tool("`onnx.inliner.inline_local_functions`", "onnx", _inline, Outcome.INLINED),
    Tool("`onnx.version_converter.convert_version`", "onnx", _convert_version, Outcome.STRIPPED),
    Tool("`onnx_ir.load`, `onnx_ir.save`", "onnx-ir", _by_files(_through_onnx_ir), Outcome.KEPT, Verified.SITES),
    Tool(
        "`RemoveUnusedNodesPass`, `RemoveUnusedFunctionsPass`, `RemoveUnusedOpsetsPass`", "onnx-ir",
        _onnx_ir_pass("RemoveUnusedNodesPass", "RemoveUnusedFunctionsPass", "RemoveUnusedOpsetsPass"), Outcome.KEPT,
        remark="Removes a constant that an adaptive pool's body does not use below opset 18."),
    Tool("`TopologicalSortPass`", "onnx-ir", _onnx_ir_pass("TopologicalSortPass"), Outcome.KEPT, Verified.SITES),
    Tool("`InlinePass`", "onnx-ir", _onnx_ir_pass("InlinePass"), Outcome.INLINED),
    Tool("`onnxscript.optimizer.optimize`", "onnxscript", _optimise_by_onnxscript(), Outcome.INLINED),
    Tool(
        "the same with `inline=False`", "onnxscript", _optimise_by_onnxscript(inline=False), Outcome.KEPT,
        remark="Optimises the bodies, too."),
    Tool("`onnxscript.version_converter.convert_version`", "onnxscript", _convert_by_onnxscript, Outcome.INLINED),
    *(
        Tool(
            f"`optimized_model_filepath`, `{level}`",
            "onnxruntime",
            _optimised_offline(level),
            Outcome.INLINED,
            remark=_FUSED if level in ("ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL") else "",
        )
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
    ),
    Tool(
        "`SymbolicShapeInference.infer_shapes`", "onnxruntime", _infer_symbolically, Outcome.KEPT, Verified.SITES,
        refuses=("LeNet",)),
    Tool("`quant_pre_process`", "onnxruntime", _by_files(_prepare_quantisation), Outcome.INLINED, refuses=("LeNet",)),
    Tool(
        "`quantize_dynamic`", "onnxruntime", _by_files(_quantise), Outcome.KEPT, Verified.SITES,
        "The bits are those of the quantised original.", changes_values=True),
    Tool(
        "`onnxruntime.transformers.float16`", "onnxruntime", _halve_by_onnxruntime, Outcome.MISTYPED,
        but={"float16": Outcome.KEPT}, remark="Leaves a model in float16 as it is."),
    Tool("`onnxconverter_common.float16`", "onnxconverter-common", _halve, Outcome.MISTYPED, refuses=("float16",)),
    Tool("`onnxslim.slim`", "onnxslim", _slim, Outcome.KEPT, remark="Optimises the bodies of adaptive pools, too."),
    Tool("`onnxsim.simplify`", "onnxsim", _simplify, Outcome.KEPT, Verified.SITES),
    Tool("`onnxoptimizer.optimize`", "onnxoptimizer", _optimise, Outcome.KEPT, Verified.SITES),
)  # fmt: skip
