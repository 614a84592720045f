# SPDX-License-Identifier: Apache-2.0

"""The driver: forms with a common anchor, and refusals after the match."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import AnchorReport, lower, patterns
from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families import registry
from poolgrad_lowering.compiler.families.gradient import Form, Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.registry import MAX_POOLS
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.compiler.lowering import match as match_step
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.memo import Reads
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Node
from poolgrad_lowering.model.windows import AdaptiveWindows
from tests.pool_graphs import parse


def reported(model: ModelProto, monkeypatch: pytest.MonkeyPatch, forms: list[Form]) -> list[AnchorReport]:
    monkeypatch.setattr(match_step, "all_forms", lambda: tuple(forms))
    return list(lower(model).report.anchors)


def test_forms_with_a_common_anchor_say_their_order() -> None:
    by_anchor = defaultdict(list)
    for form in patterns.own_forms():
        for anchor in form.anchors:
            by_anchor[anchor].append(form.priority)
    for anchor, priorities in by_anchor.items():
        assert len(set(priorities)) == len(priorities), anchor


RELU = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")


# -- refusals after the match

N, H = Dim(1, ("N",)), Dim(1, ("H",))


def known_shapes(
    x_shape: Shape,
    pooled_shape: Shape,
    monkeypatch: pytest.MonkeyPatch,
    *,
    reads: Callable[[Facts], object] = lambda _: None,
    flat: str = "",
    numbering: Numbering = Numbering.PLANE,
) -> AnchorReport:
    """What is reported of a gradient of these shapes, which passes the checkpoint; legality refuses it (`target`).

    `flat` is the name of the operand that needs a Reshape.
    """

    def match(facts: Facts, node: Node) -> MaxPoolGradient:
        reads(facts)
        x, dx = node.input(0), node.output(0)
        assert x is not None and dx is not None  # noqa: PT018 - for the type checker
        views = {name: View.FLAT if name == flat else View.SAME for name in ("x", "grad", "argmax")}
        return MaxPoolGradient(
            **{name: Operand(x, view) for name, view in views.items()},  # type: ignore[arg-type]
            dx=Operand(dx),
            numbering=numbering,
            element_type=TensorProto.FLOAT,
            windows=AdaptiveWindows(),
            x_shape=x_shape,
            pooled_shape=pooled_shape,
        )

    def refuse(_gradient: MaxPoolGradient, _target: Target, _operator: str | None) -> LoweredOp:
        raise Refuse(Code.TARGET, "none")

    family = replace(MAX_POOLS, verify=lambda _facts, _gradient: None, select=refuse)
    monkeypatch.setattr(registry, "FAMILIES", (family,))
    [anchor] = reported(RELU, monkeypatch, [Form("f", (("", "Relu"),), "matches", match)])
    return anchor


def sizes(*given: int | Dim) -> Shape:
    return tuple(Dim(size) if isinstance(size, int) else size for size in given)


# -- constants that are not known


def read_defaults(facts: Facts) -> None:
    facts.depend_on(Reads(defaults=frozenset({"b", "a", "c"})))


BY_DEFAULT = ("input-default", "'a' is an input of the graph with a default, which a caller can override")


def test_after_the_match_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = sizes(N, 3, 8, 8), sizes(N, 3, H, 4)
    anchor = known_shapes(*shapes, monkeypatch, reads=read_defaults, flat="argmax")
    assert (anchor.code, anchor.reason) == BY_DEFAULT
    assert known_shapes(*shapes, monkeypatch, reads=read_defaults).code == "target"
