# SPDX-License-Identifier: Apache-2.0

"""Models for tests of the page: with every kind of anchor, with many anchors, with hostile names."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from tests.pool_graphs import parse

BUILT = Path(__file__).parent.parent.parent / "models" / "built"
MIXED = """g (float[2,3,4] X, float[2,3,2] dY, int64[2,3,2] I, bool c) => (A) {
    Y, J = MaxPool<kernel_shape = [2], strides = [2]>(X)
    [good] A = MaxPoolGrad(dY, J)
    [bad] B = MaxPoolGrad(dY, I)
    [choose] C = If(c) <
        then_branch = yes () => (T) { [inner] T = MaxPoolGrad(dY, I) },
        else_branch = no () => (E) { E = MaxPoolGrad(dY) }
    >
}"""
HOSTILE = (
    "<script>alert(1)</script>",
    "</script></style><img src=x onerror=alert(1)>",
    "\" onmouseover='alert(1)' x=\"",
    "a&amp;b&lt;c",
    "--><!-- ]]>",
    "\x00\x01\x1b[31m\r\n\t",
    "\u202eelif\u2028\ufeff\u200b",
    "日本語のノード名" * 6,
    "javascript:alert(1)",
    "x" * 100_000,
)


def renamed(model: ModelProto, names: dict[str, str]) -> ModelProto:
    """The model with its values and nodes renamed."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        value.name = names.get(value.name, value.name)
    for tensor in copy.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in copy.graph.node:
        node.name = names.get(node.output[0], node.name)
        for ends in (node.input, node.output):
            changed = [names.get(name, name) for name in ends]
            del ends[:]
            ends.extend(changed)
    return copy


def many_sites(count: int) -> ModelProto:
    """A model with `count` pools and gradients with unique names."""
    lines = [
        f"Y{n}, I{n} = MaxPool<kernel_shape = [2], strides = [2]>(X)\n[grad_{n}] D{n} = MaxPoolGrad(dY, I{n})"
        for n in range(count)
    ]
    outputs = ", ".join(f"D{n}" for n in range(count))
    return parse(f"g (float[2,3,4] X, float[2,3,2] dY) => ({outputs}) {{ {' '.join(lines)} }}")
