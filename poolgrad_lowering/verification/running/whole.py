# SPDX-License-Identifier: Apache-2.0

"""Runs both models from end to end in onnxruntime, if it is installed and can run the original."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from zlib import crc32

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto, helper

from poolgrad_lowering.model.ir.graphs import all_nodes, subgraphs
from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph.protos import replace_entries
from poolgrad_lowering.verification.graph.types import HALVES, factors_of
from poolgrad_lowering.verification.outside.fields import initializers_as_inputs, with_inputs_of
from poolgrad_lowering.verification.result import LevelResult, WholeModel
from poolgrad_lowering.verification.running.compare import ERRORS, compare, relative_error
from poolgrad_lowering.verification.running.evaluator import first_line

DEFAULT, DISABLED = "default", "ORT_DISABLE_ALL"
"""Optimisation levels: that of a session for which none is set, and none: equal nodes then run the same kernel."""

ROUNDED = "ORT_DISABLE_ALL with every rounding"
"""The level of models whose half-precision values are all rounded (`with_every_rounding`)."""

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
"""Operators that draw random numbers, besides a Dropout with the input `training_mode`."""

_LARGEST_SEED = 0xFFFF
"""The largest seed that is given to a node, which float32 has too."""

_SPARED = "a scatter that overwrites keeps the sign of a gradient of -0.0, which the lowered node adds to +0.0"

_REORDERED = "the gradients of average pools add up the same quotients in another order, or multiply by a reciprocal"

_READS_DECLARED = {"AveragePoolGrad": 0, "MaxPoolGrad": 1}
"""The operators whose kernels end the process if their result is declared with a symbol on an axis from this one on."""

SYMBOLS = (2, 8, 32, 128)
"""The values of all symbolic sizes, tried from the first on until the original runs."""
_MOST_ELEMENTS = 1 << 24
_DIFFERENT = (1 << 16) - 15
"""The numbers that are drawn for an input, which larger ones repeat: a prime, so that rows of weights are not equal."""
_LARGEST = 1 << 28
"""The size of a model in bytes above which it is not run."""


def compare_whole(
    original: ModelProto,
    lowered: ModelProto,
    seed: int,
    *,
    spares_zero_signs: bool = False,
    reorders_sums: bool = False,
) -> WholeModel:
    """Run both models on the same inputs: integers 0 or 1, floats of a normal distribution, equal symbolic sizes.

    They run at the default level, and without optimisations where that does not show that they are the same.
    Optimisations can also change the bits of the original, so the outputs are compared with those of the original at
    the same level.

    `spares_zero_signs`: whether all sites are proven, and the data of one had no -0.0 (`data.NO_NEGATIVE_ZERO`). The
    data of whole models may have it: a level at which outputs differ only in the sign of zeros is then skipped.

    `reorders_sums`: whether all sites are proven, and one is an average pool's, proven with data whose sums are exact.
    Those of whole models are rounded: a level at which no output differs by more than `ERRORS` is then skipped. In a
    model with half precision, that of the half type counts for every output.
    """
    try:
        import onnxruntime  # noqa: F401, PLC0415 - optional
    except ImportError:
        return WholeModel("skipped", "onnxruntime is not installed")
    if original.ByteSize() > _LARGEST:
        return WholeModel("skipped", "the model is large")
    original, lowered = _with_seeds(original), _with_seeds(lowered)
    try:
        choices = drawn_inputs(original, lowered, seed)
        original = with_inputs_of(lowered, original)
    except Exception as error:  # numpy and onnx raise errors of many classes
        return WholeModel("skipped", f"no data can be generated for the inputs: {first_line(error)}")
    explained: Explanations = {}
    if spares_zero_signs:
        explained[f"only in the sign of zeros: {_SPARED}"] = _same_but_zero_signs
    if reorders_sums:
        least = max((ERRORS[name] for name in half_types(original)), default=0.0)
        explained[f"only by roundings: {_REORDERED}"] = partial(_same_but_roundings, least=least)
    levels = [_compare_at(DEFAULT, original, lowered, choices, explained)]
    if levels[0].status != "same":
        levels.append(_compare_at(DISABLED, original, lowered, choices, explained))
    if any(level.status == "differs" for level in levels) and half_types(original):
        one, other = map(with_every_rounding, (original, lowered))
        levels = _without_lost_roundings(levels, _compare_at(DISABLED, one, other, choices, explained))
    return WholeModel.of_levels(tuple(levels))


Explanations = dict[str, Callable[[AnyArray, AnyArray], bool]]
"""Tests of two outputs that differ, by the reason that they find."""

Inputs = Callable[[], dict[str, AnyArray]]
"""Draws inputs by name when it is first called."""


def drawn_inputs(original: ModelProto, lowered: ModelProto, seed: int) -> list[Inputs]:
    """Return inputs for the two models, one choice for each of the sizes that symbols are tried with.

    Raises errors of many classes if none can be drawn.
    """
    weights = initializers_as_inputs(original.graph, lowered.graph)
    values = {name: onnx.numpy_helper.to_array(tensor) for name, tensor in weights.items()}
    sizes = _symbols(original)
    choices: list[Inputs] = [cache(lambda size=size: _feeds(original, size, seed) | values) for size in sizes]
    choices[0]()
    return choices


def _without_lost_roundings(levels: list[LevelResult], rounded: LevelResult) -> list[LevelResult]:
    """Return the results with that of a run with every rounding of half precision.

    If that one is the same, or explained, a level at which outputs differ is skipped: there onnxruntime left out other
    roundings of one model than of the other.
    """
    if rounded.status != "same" and not (rounded.status == "skipped" and rounded.ran):
        return levels
    lost = "onnxruntime leaves out roundings of half precision; with all of them the outputs are the same"
    others = [
        replace(level, status="skipped", reason=f"{lost}; {level.reason}") if level.status == "differs" else level
        for level in levels
    ]
    return [*others, replace(rounded, level=ROUNDED)]


def _with_seeds(model: ModelProto) -> ModelProto:
    """Return the model with a seed for each node that draws random numbers without one; the same object if none does.

    The seed follows from the name of the result, so that the same node of two models draws the same numbers.
    """
    if not any(map(_is_random, all_nodes(model))):
        return model
    seeded = deepcopy(model)
    for node in filter(_is_random, all_nodes(seeded)):
        seed = crc32(node.output[0].encode()) & _LARGEST_SEED
        node.attribute.append(helper.make_attribute("seed", seed if node.op_type == "Dropout" else float(seed)))
    return seeded


def _is_random(node: NodeProto) -> bool:
    """Whether a node draws random numbers, with a seed of the runtime's."""
    draws = node.op_type in _RANDOM or (node.op_type == "Dropout" and any(node.input[2:]))
    return node.domain in ("", "ai.onnx") and draws and all(a.name != "seed" for a in node.attribute)


class RunError(Exception):
    """A loaded model does not run with the inputs that were drawn."""


def _compare_at(
    level: str, original: ModelProto, lowered: ModelProto, choices: list[Inputs], explained: Explanations
) -> LevelResult:
    """Compare at one level, with the first of the choices of inputs with which the original runs.

    The level is skipped if one of the tests in `explained` accepts all outputs that differ; the key says why.
    """
    names = [value.name for value in original.graph.output]
    reason = ""
    for inputs in choices:
        feeds = inputs()
        try:
            expected = run_model(original, level, names, feeds)
            break
        except RunError as error:
            reason = f"the original does not run with the inputs that verify drew: {error}"
        except Exception as error:  # onnxruntime raises errors of many classes
            reason = f"onnxruntime does not run the original: {first_line(error)}"
            return LevelResult(level, "skipped", reason, ran=False)
    else:
        return LevelResult(level, "skipped", reason, ran=False)
    try:
        found = run_model(lowered, level, names, feeds)
    except Exception as error:  # as above
        reason = f"onnxruntime runs the original, but not the lowered model: {first_line(error)}"
        return LevelResult(level, "differs", reason, ran=False)
    triples = zip(names, expected, found, strict=True)
    mismatches = (compare(before, after, run=0, output=name) for name, before, after in triples)
    first = next((mismatch for mismatch in mismatches if mismatch is not None), None)
    if first is None:
        return LevelResult(level, "same")
    difference = f"output '{first.output}': {first.what}"
    for reason, equal in explained.items():
        if all(map(equal, expected, found)):
            return LevelResult(level, "skipped", f"{difference}, {reason}")
    return LevelResult(level, "differs", difference)


def _same_but_zero_signs(before: AnyArray, after: AnyArray) -> bool:
    one, other = (np.where(array == 0, np.zeros_like(array), array) for array in (before, after))
    return compare(one, other, run=0, output="") is None


def _same_but_roundings(before: AnyArray, after: AnyArray, *, least: float) -> bool:
    """Whether roundings explain the difference: those of the type, or of a type on the way whose error is `least`."""
    error = ERRORS.get(str(before.dtype), 0.0)
    is_same = compare(before, after, run=0, output="") is None
    return is_same or relative_error(before, after, before) <= (error and max(error, least))


def run_model(model: ModelProto, level: str, names: list[str], feeds: dict[str, AnyArray]) -> list[AnyArray]:
    """Return the outputs of a model on onnxruntime's CPU provider. Raises the errors of onnxruntime.

    Raises `ValueError` if sizes that a kernel needs of its result are not declared.
    """
    import onnxruntime  # noqa: PLC0415 - optional

    if any(node.op_type in _READS_DECLARED for node in model.graph.node):
        model = _with_numbers(model, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as exceptions
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait for a single run
    if level != DEFAULT:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    try:
        outputs: list[AnyArray] = session.run(names, _kept(model, feeds))
    except Exception as error:  # as in `_compare_at`
        raise RunError(first_line(error)) from error
    return outputs


def _kept(model: ModelProto, feeds: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the feeds with copies of those that onnxruntime overwrites: the statistics of a BatchNormalization."""
    written = {name for node in model.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:]}
    return {name: array.copy() if name in written else array for name, array in feeds.items()}


def _with_numbers(model: ModelProto, feeds: dict[str, AnyArray]) -> ModelProto:
    """Return the model with the sizes of these inputs as numbers, wherever it declares them by name."""
    numbered = deepcopy(model)
    sizes = {
        dim.dim_param: size
        for value in numbered.graph.input
        if value.name in feeds
        for dim, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=False)
        if dim.dim_param
    }
    declared = {}
    for value in (*numbered.graph.input, *numbered.graph.value_info, *numbered.graph.output):
        declared[value.name] = value.type.tensor_type
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    for node in (node for node in numbered.graph.node if node.op_type in _READS_DECLARED):
        known = declared.get(node.output[0], TypeProto.Tensor()).shape.dim
        if not known or not all(dim.HasField("dim_value") for dim in known[_READS_DECLARED[node.op_type] :]):
            raise ValueError(f"the sizes of '{node.output[0]}', the result of {node.op_type}, are not declared")
    return numbered


def _symbols(model: ModelProto) -> tuple[int, ...]:
    """Return the values to try for symbolic sizes; only the first if there are none, or if the inputs are large."""
    shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
    if all(dim.HasField("dim_value") for shape in shapes for dim in shape):
        return SYMBOLS[:1]
    return SYMBOLS[:1] + tuple(
        size for size in SYMBOLS[1:] if sum(math.prod(_sizes(shape, size)) for shape in shapes) <= _MOST_ELEMENTS
    )


def _sizes(shape: Iterable[TensorShapeProto.Dimension], symbol: int) -> list[int]:
    """Return the sizes of a shape in which each symbol is this number; one may be a product such as `16*N`."""
    factors = [[dim.dim_value] if dim.HasField("dim_value") else factors_of(dim.dim_param) for dim in shape]
    return [math.prod(of if isinstance(of, int) else symbol for of in each) for each in factors]


def _feeds(model: ModelProto, symbol: int, seed: int) -> dict[str, AnyArray]:
    random = np.random.default_rng(seed)
    feeds, stored = {}, {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in stored:
            tensor_type = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type)
            shape = _sizes(tensor_type.shape.dim, symbol)
            few = min(math.prod(shape), _DIFFERENT)
            drawn = random.integers(0, 2, few) if dtype.kind in "biu" else random.standard_normal(few)
            feeds[value.name] = np.resize(drawn.astype(dtype, copy=False), shape)  # repeats them
    return feeds


def half_types(model: ModelProto) -> set[str]:
    """Return the half types of inputs, initializers, declared values and conversions of the main graph."""
    graph = model.graph
    declared = {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output, *graph.value_info)}
    declared.update(tensor.data_type for tensor in graph.initializer)
    declared.update(a.i for node in graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to")
    return {helper.tensor_dtype_to_np_dtype(element).name for element in declared.intersection(HALVES)}


def with_every_rounding(model: ModelProto) -> ModelProto:
    """Return the model with an Identity after each node, to be run without optimisations.

    onnxruntime computes most operators of half precision in float32 on the CPU. Between two of them it removes the
    conversion to half precision and back, together with its rounding; which roundings are left depends on the operators
    around. An Identity has a kernel for half precision, and separates all pairs.
    """
    copied = deepcopy(model)
    _separate(copied.graph)
    return copied


def _separate(graph: GraphProto) -> None:
    nodes = []
    for node in graph.node:
        for _, inner in subgraphs(node.attribute):
            _separate(inner)
        kept = deepcopy(node)
        nodes.append(kept)
        for position, value in enumerate(node.output):
            if value:
                kept.output[position] = f"{value} (before its rounding)"
                nodes.append(helper.make_node("Identity", [kept.output[position]], [value]))
    replace_entries(graph, "node", nodes)
