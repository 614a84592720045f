# SPDX-License-Identifier: Apache-2.0

"""What facts conclude from several sources, in which order, and how often they look at a node."""

from __future__ import annotations

from collections import Counter

import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Value
from tests.pool_graphs import parse
from tests.poolgrad_lowering.model.facts.inferred import without_inference


def sizes(shape: Shape | None) -> list[str] | None:
    """The sizes as text, "?" for one that has no name."""
    return None if shape is None else ["?" if is_opaque(dim) else str(dim) for dim in shape]


def inner_value(model: ModelProto, path: str, name: str) -> tuple[Facts, Value]:
    """The facts of a model and a value of one of its scopes."""
    index = ModelIndex(model)
    [scope] = [scope for scope in index.scopes if scope.path == path]
    value = scope.resolve(name)
    assert value is not None, name
    return Facts(index), value


@pytest.fixture
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    without_inference(monkeypatch)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[Node]:
    """How often facts ask for the definition of a node's operator."""
    found: Counter[Node] = Counter()
    is_function = Facts.is_function

    def watched(facts: Facts, node: Node) -> bool:
        found[node] += 1
        return is_function(facts, node)

    monkeypatch.setattr(Facts, "is_function", watched)
    return found


# -- long chains

LINKS = {
    "a rule": "{1} = Relu({0})",
    "an absent operand": "{1} = Clip({0}, , top)",
    "an absent output": ", {1} = MaxPool<kernel_shape = [1]>({0})",
    "onnx's inference": "{1} = Softplus({0})",
    "a training runtime's operator": "{1} = com.microsoft.FastGelu({0})",
    "a long way round": "k{1} = Softplus({0})  {1} = Add(k{1}, {0})",
    "a branch": """{1} = If(c) <then_branch = t{1} () => (float[] h{1}) {{ h{1} = Relu({0}) }},
                                else_branch = e{1} () => (float[] l{1}) {{ l{1} = Relu({0}) }}>""",
}
LENGTH = 300


def chained(link: str) -> ModelProto:
    nodes = "  ".join(link.format(f"a{number}", f"a{number + 1}") for number in range(LENGTH))
    return parse(
        f"g (float[N,3,8] a0, bool c) => (a{LENGTH}) <float top = {{9}}> {{ {nodes} }}", imports='"com.microsoft": 1'
    )


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("question", ["all from the first", "all from the last", "the last"])
@pytest.mark.usefixtures("_without_inference")
def test_each_node_is_looked_at_a_few_times(name: str, question: str, looked_at: Counter[Node]) -> None:
    """Else the time would grow with the square of the length."""
    index = ModelIndex(chained(LINKS[name]))
    facts = Facts(index)
    numbers = {"all from the first": range(LENGTH), "all from the last": range(LENGTH)[::-1]}.get(question, [LENGTH])
    for number in numbers:
        facts.shape(Value(index.scopes[0], f"a{number}"))
    assert max(looked_at.values(), default=0) <= 2  # for the chain, and for its shape


# -- functions and subgraphs


FUNCTION = """g (float[2,N] X, float16[2,N] H) => (Y, Z) {{ Y = local.f(X)  Z = local.f({}) }}
<domain: "local", opset_import: ["": 16, "other": 1]> f (x) => (z) {{
    r = Relu(x)  s = Softplus(r)  u = other.Foo(s)  z = Neg(u)
}}"""
CLAIMS = {"x": ("int64", "7"), "r": ("int64", "7"), "s": ("int64", "7"), "u": ("double", "5,K")}


def called(operand: str, *, claims: bool) -> ModelProto:
    model = parse(FUNCTION.format(operand), ir=10, imports='"local": 1')
    for name, (kind, dims) in CLAIMS.items() if claims else ():
        model.functions[0].value_info.append(parse(f"g ({kind}[{dims}] {name}) => () {{ }}").graph.input[0])
    return model


def test_what_an_unknown_operator_of_a_function_gives() -> None:
    """Only the declaration can tell; its names are those of the function."""
    facts, value = inner_value(called("X", claims=True), "function local.f", "u")
    assert facts.element_type(value) == TensorProto.DOUBLE
    assert sizes(facts.shape(value)) == ["5", "function local.f:K"]
    facts, value = inner_value(called("X", claims=False), "function local.f", "u")
    assert (facts.element_type(value), facts.shape(value)) == (None, None)
