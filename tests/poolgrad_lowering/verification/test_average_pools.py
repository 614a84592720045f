# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools are proven in every producer's operators; whatever is wrong in one is found."""

from __future__ import annotations

import itertools
import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import lower, verify
from poolgrad_lowering.verification.result import Verification
from poolgrad_lowering.verification.running import contract
from poolgrad_lowering.verification.running.data import NO_INFINITE_GRADIENT, ONLY_MULTIPLES
from poolgrad_lowering.verification.running.whole import compare_whole
from tests.average_models import AVERAGE_2D, AVERAGE_3D, CASES, AverageCase
from tests.poolgrad_lowering.verification.average_pairs import Pair, changed, pair, site_node, with_sizes

WINDOWED = {name: case for name, case in CASES.items() if not case.output_size}
TILES = AverageCase(AVERAGE_2D, (2, 3, 7, 8), (3, 3), (2, 2), (0, 0))


def check(models: Pair) -> Verification:
    found = verify(*models, whole_model=False)
    assert found.proven, (found.differences, [(site.reason, site.mismatch) for site in found.sites])
    assert [len(site.gradients) for site in found.sites] == [1]
    return found


@pytest.mark.parametrize("spelling", ["aten", "named"])
@pytest.mark.parametrize("name", WINDOWED)
def test_pytorch(name: str, spelling: str) -> None:
    check(pair(WINDOWED[name], spelling))


@pytest.mark.parametrize("spelling", ["aten", "training"])
@pytest.mark.parametrize("op", [AVERAGE_2D, AVERAGE_3D])
def test_named_sizes(op: str, spelling: str) -> None:
    check(pair(replace(TILES, op=op), spelling, symbolic=True))


def mutants_of(case: AverageCase, model: ModelProto) -> dict[str, ModelProto]:
    """The lowered model with one number of the windows changed, in Ascend's attributes and in the body's alike.

    Left out are those that have the same gradient by the definition: `count_include_pad` without padding, for one.
    """
    variants: dict[str, AverageCase] = {
        "ceil": replace(case, ceil_mode=not case.ceil_mode),
        "counts": replace(case, count_include_pad=not case.count_include_pad),
        "divisor": replace(case, divisor_override=case.divisor_override + 1),
    }
    for field in ("ksize", "strides", "pads"):
        for axis, step in itertools.product(range(len(case.ksize)), (-1, 1)):
            numbers = list(getattr(case, field))
            numbers[axis] += step
            variants[f"{field}[{axis}] {step:+}"] = replace(case, **{field: tuple(numbers)})
    return {
        name: changed(model, **variant.attributes())
        for name, variant in variants.items()
        if min(*variant.ksize, *variant.strides) > 0 and min(variant.pads) >= 0 and not same_gradient(case, variant)
    }


def same_gradient(case: AverageCase, other: AverageCase) -> bool:
    """Whether two pools of x have the same gradient by the definition."""
    if min(other.grad_shape) < 1 or other.grad_shape != case.grad_shape:
        return False
    dy = np.random.default_rng(0).standard_normal(case.grad_shape)
    return bool(np.allclose(case.expected(dy), other.expected(dy)))


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("name", ["2d", "2d, padding counts", "2d, ceil, beyond", "2d, ceil, a divisor", "3d"])
def test_other_windows(name: str, element: int) -> None:
    case = WINDOWED[name]
    original, model = pair(case, "aten", element=element)
    mutants = mutants_of(case, model)
    assert len(mutants) > 8
    assert [name for name, each in mutants.items() if verify(original, each, whole_model=False, runs=3).proven] == []


@pytest.mark.parametrize("spelling", ["decomposed", "reciprocal", "tensorflow", "training"])
def test_other_windows_of_each_producer(spelling: str) -> None:
    original, model = pair(TILES, spelling)
    assert [name for name, mutant in mutants_of(TILES, model).items() if verify(original, mutant).proven] == []


@pytest.mark.parametrize("spelling", ["aten", "training"])
def test_other_windows_of_named_sizes(spelling: str) -> None:
    """Whatever is the same at some sizes is another gradient at others."""
    case = replace(TILES, pads=(1, 0), strides=(3, 2))
    original, model = pair(case, spelling, symbolic=True)
    mutants = mutants_of(case, model)
    mutants["ceil"] = changed(model, **replace(case, ceil_mode=True).attributes())
    assert [name for name, mutant in mutants.items() if verify(original, mutant).proven] == []


def test_windows_that_start_in_the_padding() -> None:
    """onnxruntime-training 1.19.2 makes them, and onnx infers them; newer releases of onnxruntime drop them."""
    attributes = "<kernel_shape = [2,2], strides = [2,2], pads = [1,1,1,1], ceil_mode = 1>"
    original = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[1,1,7,8] x) => (float[1,1,7,8] dX) {'
        f" y = AveragePool {attributes} (x) dY = Neg (y) dX = AveragePoolGrad {attributes} (dY) }}"
    )
    [site] = verify(original, lower(original).model, whole_model=False).sites
    assert site.status == "unproven"
    what = "the gradient of AveragePoolGrad 'dX' has 5x5 windows over an input of 7x8, of which ONNX has 4x5"
    assert what in str(site.reason)


def test_a_bias_of_zeros() -> None:
    """onnx's evaluator cannot add one to several groups."""
    original = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[2,3,2,2] dY) => (float[2,3,4,4] dX)'
        " <float four = {4}, float[3,1,2,2] ones = {1,1,1,1,1,1,1,1,1,1,1,1}, float[3] none = {0,0,0}> {"
        " means = Div (dY, four) dX = ConvTranspose <group = 3, strides = [2,2]> (means, ones, none) }"
    )
    found = verify(original, lower(original).model)
    assert [site.status for site in found.sites] == ["proven"]


def test_a_product_of_several_factors() -> None:
    """A quarter of a denormal number is rounded, and twice that is not its half."""
    original = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[2,2,1,2] dY) => (float[2,2,1,4] dX)'
        " <float quarter = {0.25}, float two = {2}, int64[5] apart = {2,2,1,2,1}, int64[5] times = {1,1,1,1,2},"
        " int64[4] sizes = {2,2,1,4}> { a = Reshape (dY, apart) b = Tile (a, times) c = Reshape (b, sizes)"
        " d = Mul (c, quarter) dX = Mul (d, two) }"
    )
    found = verify(original, lower(original).model)
    assert [site.status for site in found.sites] == ["proven"]


SHAPES = {
    "batch": (1, 3, 9, 8),
    "channels": (2, 2, 9, 8),
    "height": (2, 3, 10, 8),
    "width": (2, 3, 9, 9),
    "exchanged": (2, 3, 8, 9),
    "missing": (2, 3, 9),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_another_shape(shape: tuple[int, ...]) -> None:
    original, model = pair(WINDOWED["2d"], "aten")
    assert verify(original, model).proven
    found = verify(original, with_sizes(model, np.array(shape, np.int32)))
    assert found.sites[0].status == "differs"


@pytest.mark.parametrize("sizes", [np.array(WINDOWED["2d"].x_shape), np.array([WINDOWED["2d"].x_shape], np.int32)])
def test_a_shape_of_another_type_or_rank(sizes: Any) -> None:
    original, model = pair(WINDOWED["2d"], "aten")
    [site] = verify(original, with_sizes(model, sizes), whole_model=False).sites
    assert site.mismatch is not None
    assert "orig_input_shape has type" in site.mismatch.what or "does not run" in site.mismatch.what


ASCENDS = {
    "ksize": [1, 1, 3, 3],
    "strides": [1, 1, 2, 2],
    "pads": [1, 1, 0, 0],
    "exclusive": 0,
    "ceil_mode": 1,
    "divisor_override": 4,
    "onnx_kernel_shape": [3, 3],
    "onnx_strides": [2, 2],
    "onnx_pads": [1, 0, 0, 0],
    "onnx_output_padding": [1, 1],
    "onnx_counted_pads": [1, 1, 1, 1],
    "onnx_uncounted_pads": [0, 0, 0, 0],
    "onnx_divisor": 4.0,
}


@pytest.mark.parametrize("name", ASCENDS)
def test_attributes_that_contradict_each_other(name: str) -> None:
    """The body reads ONNX's attributes alone, a kernel Ascend's."""
    original, model = pair(WINDOWED["2d"], "aten")
    assert not verify(original, changed(model, **{name: ASCENDS[name]})).proven


@pytest.mark.parametrize("name", ["ksize", "strides", "pads", "exclusive", "divisor_override"])
def test_what_ascends_attributes_mean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contradiction is found by the results too, which are computed from Ascend's attributes without the body."""
    monkeypatch.setattr(contract, "window_flaw", lambda *_: None)
    case = AverageCase(AVERAGE_2D, (2, 3, 9, 8), (4, 3), (2, 1), (1, 1))
    original, model = pair(case, "aten")
    assert verify(original, model, whole_model=False).proven
    others = {
        "ksize": [1, 1, 5, 3],
        "strides": [1, 1, 2, 2],
        "pads": [1, 1, 0, 0],
        "exclusive": 0,
        "divisor_override": 4,
    }
    [site] = verify(original, changed(model, **{name: others[name]}), whole_model=False).sites
    assert site.mismatch is not None
    expected = "than the attributes say" if name in ("exclusive", "divisor_override") else "say|do not fit x"
    assert re.search(expected, site.mismatch.what), site.mismatch.what


@pytest.mark.parametrize("name", ["ksize", "strides"])
@pytest.mark.parametrize("spelling", ["aten", "training"])
def test_windows_without_elements_or_steps(name: str, spelling: str) -> None:
    original, lowered = pair(TILES, spelling, symbolic=True)
    attribute = next(each for each in site_node(lowered).attribute if each.name == name)
    attribute.ints[2] = 0
    assert not verify(original, lowered, whole_model=False).proven


def test_exchanged_operands() -> None:
    original, model = pair(CASES["adaptive 2d"], "aten")
    for names in (["x", "dy"], ["dy", "dy"], ["x", "x"]):
        site_node(model).input[:] = names
        assert not verify(original, model).proven
    original, model = pair(WINDOWED["2d"], "aten")
    site_node(model).input[:] = ["dy", "site_sizes"]
    assert not verify(original, model).proven


def test_another_element_type_of_x() -> None:
    """x gives its shape alone to the function body, and its type to the kernel."""
    original, model = pair(CASES["adaptive 2d"], "aten")
    model.graph.node.insert(0, onnx.helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16))
    site_node(model).input[1] = "half"
    [site] = verify(original, model, whole_model=False).sites
    assert site.mismatch is not None
    assert "x has type float16" in site.mismatch.what


def without_declared_sizes(model: ModelProto) -> ModelProto:
    edited = deepcopy(model)
    for dim in edited.graph.output[0].type.tensor_type.shape.dim:
        dim.dim_param = "unknown"
    return edited


def test_the_shape_of_x_is_that_of_the_forward_pool() -> None:
    """onnxruntime's operator has no operand with it; without the declared one, the forward pool's is taken."""
    models = [without_declared_sizes(model) for model in pair(WINDOWED["2d"], "training")]
    assert verify(*models).proven
    assert not verify(models[0], with_sizes(models[1], np.array([2, 3, 9, 9], np.int32))).proven


def test_an_unknown_shape_of_x() -> None:
    models = [without_declared_sizes(model) for model in pair(WINDOWED["2d"], "training")]
    for model in models:
        pool = next(node for node in model.graph.node if node.op_type == "AveragePool")
        pool.attribute.append(onnx.helper.make_attribute("dilations", [1, 2]))
    [site] = verify(*models, whole_model=False).sites
    assert site.reason is not None
    assert "no AveragePool is the forward pool of" in site.reason


def test_what_is_not_drawn() -> None:
    for spelling, reasons in (
        ("aten", (ONLY_MULTIPLES,)),
        ("decomposed", (ONLY_MULTIPLES, NO_INFINITE_GRADIENT)),
    ):
        assert check(pair(TILES, spelling)).sites[0].not_drawn == reasons


def test_other_divisors_are_no_roundings() -> None:
    """A Mul by a rounded reciprocal is compared up to a bound, which is less than any other divisor makes."""
    original, model = pair(TILES, "reciprocal")
    near = {number: changed(model, **replace(TILES, divisor_override=number).attributes()) for number in (8, 9, 10)}
    assert [number for number, mutant in near.items() if verify(original, mutant, whole_model=False).proven] == [9]


@pytest.mark.parametrize("spelling", ["aten", "training"])
def test_another_stride_of_a_single_window(spelling: str) -> None:
    """The results are the same at this size; a proof needs the windows of the pool."""
    case = WINDOWED["2d, global"]
    original, model = pair(case, spelling)
    [site] = verify(original, changed(model, **replace(case, strides=(1, 1)).attributes())).sites
    assert (site.status, site.reason) == (
        "unproven",
        f"the windows of '{site_node(model).name}' are not those of the pool",
    )


def joined(models: list[ModelProto], moved: str) -> ModelProto:
    """One model with the gradients of several, which read the same node, so that they are one region."""
    whole = deepcopy(models[0])
    for field in ("node", "initializer", "output"):
        whole.graph.ClearField(field)
    whole.graph.node.append(onnx.helper.make_node("Identity", ["dy"], [moved]))
    for number, model in enumerate(models):

        def renamed(name: str, number: int = number) -> str:
            return {"": "", "x": "x", "dy": moved}.get(name, f"{number}/{name}")

        for node in deepcopy(model).graph.node:
            node.input[:], node.output[:] = map(renamed, node.input), map(renamed, node.output)
            whole.graph.node.append(node)
        for field in ("initializer", "output"):
            for value in getattr(deepcopy(model).graph, field):
                value.name = renamed(value.name)
                getattr(whole.graph, field).append(value)
        for field, name in (("functions", "name"), ("opset_import", "domain")):
            known = {getattr(entry, name) for entry in getattr(whole, field)}
            getattr(whole, field).extend(each for each in getattr(model, field) if getattr(each, name) not in known)
    return whole


OTHER_TILES = replace(TILES, ksize=(2, 2), strides=(2, 3))


@pytest.mark.parametrize("spellings", [*itertools.permutations(("aten", "decomposed", "training"), 2)])
def test_average_pools_of_other_windows_in_one_region(spellings: tuple[str, str]) -> None:
    pairs = [pair(case, spelling) for case, spelling in zip((TILES, OTHER_TILES), spellings, strict=True)]
    originals, lowereds = map(list, zip(*pairs, strict=True))
    models = joined(originals, "before"), joined(lowereds, "after")
    [site] = verify(*models, whole_model=False).sites
    assert (site.status, len(site.gradients)) == ("proven", 2), site.reason
    exchanged = joined([changed(lowereds[0], **OTHER_TILES.attributes()), lowereds[1]], "after")
    assert not verify(models[0], exchanged, whole_model=False).proven


@pytest.mark.parametrize("spelling", ["decomposed", "reciprocal"])
def test_whole_models(spelling: str) -> None:
    """onnxruntime runs PyTorch's nodes and the function body; sums of random numbers can differ by roundings."""
    found = verify(*pair(TILES, spelling))
    assert found.proven
    reasons = [level.reason or "" for level in found.whole_model.levels if level.status == "skipped"]
    assert all("only by roundings" in reason for reason in reasons)
    assert len(reasons) == (0 if spelling == "decomposed" else 2)


def widened(model: ModelProto, factor: float = 1.0) -> ModelProto:
    """The model with its gradient in float32, as autocast leaves it, times a factor."""
    scale = onnx.helper.make_tensor("factor", TensorProto.FLOAT, [], [factor])
    model.graph.node.append(onnx.helper.make_node("Cast", ["dx"], ["single"], to=TensorProto.FLOAT))
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["factor"], value=scale))
    model.graph.node.append(onnx.helper.make_node("Mul", ["single", "factor"], ["wide"]))
    [result] = [value for value in model.graph.output if value.name == "dx"]
    result.name, result.type.tensor_type.elem_type = "wide", TensorProto.FLOAT
    return model


def halves() -> Pair:
    return pair(TILES, "reciprocal", element=TensorProto.FLOAT16)


def test_whole_models_of_half_precision_with_results_in_float32() -> None:
    original, lowered = map(widened, halves())
    found = verify(original, lowered)
    assert found.proven
    assert not found.sites_only
    assert any("only by roundings" in (level.reason or "") for level in found.whole_model.levels)
    assert compare_whole(original, widened(halves()[1], 1.02), 0, reorders_sums=True).status == "differs"
