# SPDX-License-Identifier: Apache-2.0

"""What facts conclude from several sources, in which order, and how often they look at a node."""

from __future__ import annotations

from collections import Counter

import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.shape_rules import is_opaque
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Value
from tests.pool_graphs import main_value, parse
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


@pytest.mark.parametrize("last", ["Y = Softplus(B)", "Z = NonZero(B)  A = Cast<to = 1>(Z)  Y = other.Foo(A)"])
def test_what_need_not_be_looked_at(last: str, looked_at: Counter[Node]) -> None:
    """Nodes behind a shape that inference knows, or that only a declaration can tell."""
    nodes = "  ".join(f"a{number + 1} = Softplus(a{number})" for number in range(9))
    model = parse(f"g (float[2,N] a0) => (float[2,?] Y) {{ {nodes}  B = Exp(a9)  {last} }}", imports='"other": 1')
    facts, value = main_value(model, "Y")
    assert sizes(facts.shape(value)) == ["2", "N" if last.startswith("Y") else "?"]
    assert {node.outputs[0] for node in looked_at} <= {value}


# -- names of sizes that a model declares

POOL = "A = MaxPool<kernel_shape = [3]>(X)"
NAMED = [
    (POOL, "N,3,P", ["N", "3", "P"]),
    (POOL, "M,3,P", ["N", "3", "P"]),
    (POOL, "N,C,P", ["N", "3", "P"]),
    (POOL, "N,3,5", ["N", "3", "?"]),
    (POOL, "N,3,L", ["N", "3", "?"]),
    (POOL, "N,3,N", ["N", "3", "?"]),
    (POOL, "N,3", ["N", "3", "?"]),
    (POOL, "N,3,P,Q", ["N", "3", "?"]),
    (POOL, "P", ["N", "3", "?"]),
    ("A = Conv(X, W)", "N,3,P", ["N", "3", "P"]),
    ("A = ConvTranspose(X, W)", "N,3,P", ["N", "3", "P"]),
    ("A = LpPool<kernel_shape = [3]>(X)", "N,3,P", ["N", "3", "P"]),
    ("A = AveragePool<kernel_shape = [3]>(X)", "N,3,P", ["N", "3", "P"]),
    ("A = Concat<axis = -1>(X, X)", "N,3,P", ["N", "3", "P"]),
    ("B = NonZero(X)  A = Cast<to = 1>(B)", "3,P", ["3", "?"]),
    ("A = Compress<axis = 0>(X, given)", "P,3,L", ["?", "3", "L"]),
    ("A = Relu(X)", "P,3,L", ["N", "3", "L"]),
    ("A = other.Pool(X)", "P,3,L", ["P", "3", "L"]),
    ("A = other.Pool(X)", "9,3", ["9", "3"]),
]


@pytest.mark.parametrize(("nodes", "declared", "expected"), NAMED)
def test_names_that_a_model_declares(nodes: str, declared: str, expected: list[str]) -> None:
    """A size that an operator computes may have one; what is proven, and what another input has, is not renamed."""
    model = parse(
        f"""g (float[N,3,L] X, bool[K] given) => (Y) <float[3,3,3] W = {{{",".join("1" * 27)}}}, float[{declared}] A> {{
            {nodes}
            Y = Softplus(A)
        }}""",
        imports='"other": 1',
    )
    facts, value = main_value(model, "A")
    assert sizes(facts.shape(value)) == expected


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


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize(("name", "expected"), [("x", ["2", "N"]), ("r", ["2", "N"]), ("s", ["2", "N"])])
def test_calls_that_disagree(name: str, expected: list[str] | None, claims: bool) -> None:
    """Of the element type."""
    facts, value = inner_value(called("H", claims=claims), "function local.f", name)
    assert facts.element_type(value) is None
    assert sizes(facts.shape(value)) == expected
    facts, value = inner_value(called("", claims=claims), "function local.f", name)
    assert (facts.element_type(value), facts.shape(value)) == (None, None)


def test_what_an_unknown_operator_of_a_function_gives() -> None:
    """Only the declaration can tell; its names are those of the function."""
    facts, value = inner_value(called("X", claims=True), "function local.f", "u")
    assert facts.element_type(value) == TensorProto.DOUBLE
    assert sizes(facts.shape(value)) == ["5", "function local.f:K"]
    facts, value = inner_value(called("X", claims=False), "function local.f", "u")
    assert (facts.element_type(value), facts.shape(value)) == (None, None)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("inferred", [False, True])
def test_operators_that_the_model_defines_anew(domain: str, inferred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By functions of the default domain: no rule of onnx's operators holds for them, nor what is declared of them."""
    if not inferred:
        without_inference(monkeypatch)
    model = parse(
        f"""g (float[2,N] X, int64[2] p, int64[2] q) => (float[7] Y, float[7] Z) <float[7] A> {{
            A = Softsign(X)  Y = Transpose(X)  s = Mul(p, q)  Z = Reshape(X, s) }}
        <domain: "{domain}", opset_import: ["": 16]> Softsign (x) => (z) {{ z = Relu(x) }}
        <domain: "{domain}", opset_import: ["": 16]> Transpose (x) => (z) {{ z = Relu(x) }}
        <domain: "{domain}", opset_import: ["": 16]> Reshape (x, s) => (z) {{ z = Exp(x) }}"""
    )
    for name in "AYZ":
        facts, value = main_value(model, name)
        assert sizes(facts.shape(value)) in (["2", "N"], None)


def test_views() -> None:
    model = parse(
        """g (float[2,N] X, int64[2] given) => (Y) {
            s = Shape(X)  same = Expand(X, s)  one = Constant<value_ints = [1]>()  again = Expand(X, one)
            more = Constant<value_ints = [3, 1, 1]>()  larger = Expand(X, more)
            unknown = Expand(X, given)  neither = Expand(nobody, s)  Y = Identity(X)  other = Relu(X)
            q = other.Foo(X)  w = Expand(q, given)  empty = Expand()
        }""",
        imports='"other": 1',
    )
    model.graph.node.add(op_type="Expand", input=["X", "s"], output=[""])
    index = ModelIndex(model)
    facts = Facts(index)
    nodes = [index.scopes[0].node(position) for position in range(len(model.graph.node))]
    assert [node.proto.output[0] for node in nodes if facts.is_view(node)] == ["same", "again", "Y"]
