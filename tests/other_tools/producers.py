# SPDX-License-Identifier: Apache-2.0

"""The tools that people run on a training graph before they lower it, each a function from a model to a model.

Defaults of each tool, and the variations that are common. A tool may return the model that it was given, changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper

from tests.generators.checks import NEWEST_OF_ONNXRUNTIME

Apply = Callable[[ModelProto], ModelProto]
SCATTERS = ("ScatterElements", "ScatterND")
NEWEST_OF_CONVERTER = 25
"""Above it onnx's converter has no steps for some operators of training graphs."""


@dataclass(frozen=True)
class Tool:
    """A tool at some settings.

    `package` has its version. `narrows`: it computes in other element types, so that its results are rounded.
    """

    package: str
    apply: Apply
    narrows: bool = False


def _common_float16(model: ModelProto, **settings: Any) -> ModelProto:
    from onnxconverter_common import float16

    blocked = settings.pop("blocked", ())
    block_list = [*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
    return _made(float16.convert_float_to_float16(model, op_block_list=block_list, **settings))


def _ort_float16(model: ModelProto, **settings: Any) -> ModelProto:
    from onnxruntime.transformers import float16

    blocked = settings.pop("blocked", ())
    block_list = [*float16.DEFAULT_OP_BLOCK_LIST, *blocked]
    return _made(float16.convert_float_to_float16(model, op_block_list=block_list, **settings))


def _mixed_precision(model: ModelProto) -> ModelProto:
    from onnxconverter_common import auto_mixed_precision

    zeros = {value.name: _zeros(value) for value in model.graph.input}
    return _made(
        auto_mixed_precision.auto_convert_mixed_precision(model, zeros, rtol=0.1, atol=0.1, keep_io_types=True)
    )


def _zeros(value: onnx.ValueInfoProto) -> np.ndarray[Any, Any]:
    tensor = value.type.tensor_type
    shape = [dim.dim_value or 2 for dim in tensor.shape.dim]
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _converter_optimizer(model: ModelProto) -> ModelProto:
    from onnxconverter_common import optimizer

    return _made(optimizer.optimize_onnx_model(model))


def _onnxslim(model: ModelProto) -> ModelProto:
    import onnxslim

    return _made(onnxslim.slim(model))


def _onnxsim(model: ModelProto) -> ModelProto:
    import onnxsim

    return _made(onnxsim.simplify(model)[0])


def _onnxoptimizer(model: ModelProto) -> ModelProto:
    import onnxoptimizer

    return _made(onnxoptimizer.optimize(model))


def _ort_offline(model: ModelProto, level: str) -> ModelProto:
    """What a session writes that only optimises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def _ort_quantization(model: ModelProto, function: str, **settings: Any) -> ModelProto:
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    apply = {"quant_pre_process": quant_pre_process, "quantize_dynamic": quantization.quantize_dynamic}[function]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.onnx"
        apply(model, result, **settings)
        return onnx.load(result)


def _symbolic_shapes(model: ModelProto) -> ModelProto:
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    return _made(SymbolicShapeInference.infer_shapes(model, auto_merge=True))


def _fixed_sizes(model: ModelProto) -> ModelProto:
    """The batch becomes a number, as by `python -m onnxruntime.tools.make_dynamic_shape_fixed`."""
    from onnxruntime.tools import onnx_model_utils

    batches = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim[:1]}
    for symbol in batches - {""}:
        onnx_model_utils.make_dim_param_fixed(model.graph, symbol, 2)
    onnx_model_utils.fix_output_shapes(model)
    return model


def _transformers_optimizer(model: ModelProto) -> ModelProto:
    from onnxruntime.transformers import optimizer

    return _made(optimizer.optimize_model(model, model_type="bert", opt_level=0).model)


def _onnxscript_optimizer(model: ModelProto) -> ModelProto:
    from onnxscript import optimizer

    return _made(optimizer.optimize(model))


def _onnxscript_rewriter(model: ModelProto) -> ModelProto:
    from onnxscript import rewriter

    return _made(rewriter.rewrite(model))


def _onnxscript_version(model: ModelProto, opset: int) -> ModelProto:
    from onnxscript import ir, version_converter

    converted = ir.from_proto(model)
    version_converter.convert_version(converted, opset)
    return ir.to_proto(converted)


def _onnx_version(model: ModelProto, opset: int) -> ModelProto:
    from onnx import version_converter

    return version_converter.convert_version(model, opset)


def _inline(model: ModelProto) -> ModelProto:
    from onnx import inliner

    return inliner.inline_local_functions(model)


def _infer_shapes(model: ModelProto) -> ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _prefix(model: ModelProto) -> ModelProto:
    """Other names of all inner values and nodes, as before two models are merged."""
    from onnx import compose

    return compose.add_prefix(model, "first/", rename_inputs=False, rename_outputs=False)


def _made(model: object) -> ModelProto:
    if not isinstance(model, ModelProto):
        raise TypeError(f"the tool returned {type(model).__name__}")
    return model


TOOLS: dict[str, Tool] = {
    "onnxconverter-common float16": Tool("onnxconverter-common", _common_float16, narrows=True),
    "onnxconverter-common float16, keep_io_types": Tool(
        "onnxconverter-common", partial(_common_float16, keep_io_types=True), narrows=True
    ),
    "onnxconverter-common float16, scatters blocked": Tool(
        "onnxconverter-common", partial(_common_float16, keep_io_types=True, blocked=SCATTERS), narrows=True
    ),
    "onnxconverter-common auto_mixed_precision": Tool("onnxconverter-common", _mixed_precision, narrows=True),
    "onnxconverter-common optimizer": Tool("onnxconverter-common", _converter_optimizer),
    "onnxruntime.transformers float16": Tool("onnxruntime", _ort_float16, narrows=True),
    "onnxruntime.transformers float16, keep_io_types": Tool(
        "onnxruntime", partial(_ort_float16, keep_io_types=True), narrows=True
    ),
    "onnxruntime.transformers float16, scatters blocked": Tool(
        "onnxruntime", partial(_ort_float16, keep_io_types=True, blocked=SCATTERS), narrows=True
    ),
    "onnxruntime.transformers optimizer": Tool("onnxruntime", _transformers_optimizer),
    "onnxruntime offline, basic": Tool("onnxruntime", partial(_ort_offline, level="ORT_ENABLE_BASIC")),
    "onnxruntime offline, extended": Tool("onnxruntime", partial(_ort_offline, level="ORT_ENABLE_EXTENDED")),
    "onnxruntime offline, all": Tool("onnxruntime", partial(_ort_offline, level="ORT_ENABLE_ALL")),
    "onnxruntime quant_pre_process": Tool(
        "onnxruntime", partial(_ort_quantization, function="quant_pre_process", auto_merge=True)
    ),
    "onnxruntime quant_pre_process, skip_symbolic_shape": Tool(
        "onnxruntime", partial(_ort_quantization, function="quant_pre_process", skip_symbolic_shape=True)
    ),
    "onnxruntime quantize_dynamic": Tool(
        "onnxruntime", partial(_ort_quantization, function="quantize_dynamic"), narrows=True
    ),
    "onnxruntime symbolic_shape_infer": Tool("onnxruntime", _symbolic_shapes),
    "onnxruntime make_dynamic_shape_fixed": Tool("onnxruntime", _fixed_sizes),
    "onnxslim": Tool("onnxslim", _onnxslim),
    "onnxsim": Tool("onnxsim", _onnxsim),
    "onnxoptimizer": Tool("onnxoptimizer", _onnxoptimizer),
    "onnxscript optimizer": Tool("onnxscript", _onnxscript_optimizer),
    "onnxscript rewriter": Tool("onnxscript", _onnxscript_rewriter),
    "onnxscript version_converter": Tool("onnxscript", partial(_onnxscript_version, opset=NEWEST_OF_CONVERTER)),
    "onnx version_converter, 18": Tool("onnx", partial(_onnx_version, opset=18)),
    "onnx version_converter, newest": Tool("onnx", partial(_onnx_version, opset=NEWEST_OF_ONNXRUNTIME)),
    "onnx inliner": Tool("onnx", _inline),
    "onnx shape_inference": Tool("onnx", _infer_shapes),
    "onnx compose.add_prefix": Tool("onnx", _prefix),
}
