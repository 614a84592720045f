# SPDX-License-Identifier: Apache-2.0

"""Text in, text out: what `lower` must do with a model in ONNX's text syntax, and what must hold of every result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering import lower
from poolgrad_lowering.dialect import registered_schemas
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from tests.graphs import Written
from tests.oracles import assert_same_bits, run_ort, run_reference

Array = npt.NDArray[Any]
Runner = Callable[[ModelProto, Mapping[str, Array]], dict[str, Array]]
NearMisses = Mapping[tuple[Code, str], str | ModelProto]
"""By code and name: the model, as text or as it is."""

TARGETS = ("atlas-a2", "atlas-a3", "ascend950")
SIZES = {"N": 2, "C": 3, "H": 9, "W": 12, "OH": 5, "OW": 6}
"""What the symbols of a text stand for when its model runs: a 3×3 window, stride 2, padding 1."""


def check_lowered(
    source: str | ModelProto,
    written: Written,
    *,
    target: str = "atlas-a2",
    feeds: Mapping[str, Array] | None = None,
    runners: Sequence[Runner] | None = None,
) -> ModelProto:
    """Assert that a model becomes the recorded nodes, computes the same bits, and is a good model; return it.

    The nodes are those of the gradient alone; with the forward pool moved, where it can, the bits are the same too.
    """
    model = onnx.parser.parse_model(source) if isinstance(source, str) else source
    lowered = lower(model, target=target, forward=False).model
    written(model, lowered)
    for result in (lowered, lower(model, target=target).model):
        check_same_results(model, result, feeds, runners)
        check_well_formed(model, result, target)
    return lowered


def near_misses(table: NearMisses) -> list[Any]:
    """Return a table as parameters (code, model) of a test, each marked with the code it provokes."""
    return [
        pytest.param(code, model, id=name, marks=pytest.mark.refusal(code.value))
        for (code, name), model in table.items()
    ]


def check_refused(source: str | ModelProto, code: Code, *, target: str = "atlas-a2") -> str:
    """Assert that some anchor has this code, none is lowered, and not one byte changes; return the reason."""
    model = onnx.parser.parse_model(source) if isinstance(source, str) else source
    before = model.SerializeToString()
    result = lower(model, target=target)
    reasons = [anchor.reason for anchor in result.report.anchors if anchor.code == code.value]
    assert reasons, [anchor.code for anchor in result.report.anchors]
    assert not result.report.lowered
    assert result.model.SerializeToString() == before == model.SerializeToString()
    return " / ".join(map(str, reasons))


@contextmanager
def refuses(code: Code, names: str = "") -> Iterator[None]:
    """Assert that a step of the compiler refuses with this code, and names a value or node in its reason."""
    with pytest.raises(Refuse) as caught:
        yield
    assert caught.value.refusal.code is code
    assert not names or f"'{names}'" in caught.value.refusal.reason


def check_stays(model: ModelProto, code: Code, *, target: str = "atlas-a2") -> str:
    """Assert that the one gradient is lowered and its pool stays, as if no pool were to move; return the reason."""
    result = lower(model, target=target)
    [anchor] = result.report.lowered
    assert (anchor.forward_op, anchor.forward_code) == (None, code.value)
    assert result.model.SerializeToString() == lower(model, target=target, forward=False).model.SerializeToString()
    return str(anchor.forward_reason)


def check_well_formed(model: ModelProto, lowered: ModelProto, target: str, *, infers: bool = True) -> None:
    """Valid, nothing left that nobody reads, and lowered for good. `infers`: ONNX infers the sizes that runs have."""
    if _has_all_operators(lowered):
        with registered_schemas():
            onnx.checker.check_model(lowered, full_check=infers)
    left = {tensor.name for tensor in lowered.graph.initializer} & _read(model)
    assert left <= _read(lowered)
    assert lower(lowered, target=target).model.SerializeToString() == lowered.SerializeToString()


def _read(model: ModelProto) -> set[str]:
    return {name for node in all_nodes(model.graph) for name in node.input} | {v.name for v in model.graph.output}


def all_nodes(graph: GraphProto) -> list[NodeProto]:
    """Return the nodes of a graph and of the graphs in their attributes."""
    inner = [node for held in graph.node for a in held.attribute if a.HasField("g") for node in all_nodes(a.g)]
    return [*graph.node, *inner]


def check_same_results(
    model: ModelProto,
    lowered: ModelProto,
    feeds: Mapping[str, Array] | None = None,
    runners: Sequence[Runner] | None = None,
) -> None:
    """Run both models, by default on random feeds and wherever the first one runs: the same bits."""
    feeds = random_feeds(model) if feeds is None else feeds
    for run in known_runners(model) if runners is None else runners:
        expected, found = run(model, feeds), run(lowered, feeds)
        assert expected.keys() == found.keys()
        for name, value in expected.items():
            assert_same_bits(found[name], value)


def known_runners(model: ModelProto) -> list[Runner]:
    """Return onnx's reference evaluator, and onnxruntime where it is installed and takes operators and types."""
    standard = _has_all_operators(model)
    bfloat16 = any(value.type.tensor_type.elem_type == TensorProto.BFLOAT16 for value in model.graph.input)
    return [run_reference, run_ort] if standard and not bfloat16 and _has_onnxruntime() else [run_reference]


def _has_all_operators(model: ModelProto) -> bool:
    """Whether every node's operator is one of onnx's schemas or of the model's functions."""
    functions = {(function.domain, function.name) for function in model.functions}
    nodes = [*all_nodes(model.graph), *(node for function in model.functions for node in function.node)]
    return all(onnx.defs.has(n.op_type, n.domain) or (n.domain, n.op_type) in functions for n in nodes)


def _has_onnxruntime() -> bool:
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return False
    return True


def random_feeds(model: ModelProto, seed: int = 0) -> dict[str, Array]:
    """Draw inputs: halves from -2 to 2 and both zeros, so that ties are frequent, and sums of them exact."""
    random = np.random.default_rng(seed)
    return {value.name: _draw(value, random) for value in model.graph.input}


def positive_feeds(source: str) -> dict[str, Array]:
    """Draw inputs without −0.0, whose sign an overwrite keeps and an addition to zero loses."""
    return {name: value + value.dtype.type(0) for name, value in random_feeds(onnx.parser.parse_model(source)).items()}


def _draw(value: onnx.ValueInfoProto, random: np.random.Generator) -> Array:
    tensor = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else SIZES[dim.dim_param] for dim in tensor.shape.dim]
    drawn = random.integers(-4, 5, shape) / 2 * random.choice([-1.0, 1.0], shape)
    return np.asarray(drawn).astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
