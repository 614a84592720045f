# SPDX-License-Identifier: Apache-2.0

"""Models for tests of the page; writes pages of models, and parses pages as HTML."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import html5lib
from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.entry.lower import lower_in_place
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.report.html import Recorder, html_report
from poolgrad_lowering.report.report import Report
from tests.pool_graphs import parse

Element = ET.Element


def observed(
    model: ModelProto, target: str = "atlas-a2", *, forward: bool = True, standard: bool = False
) -> tuple[Report, Recorder]:
    """The report and the recorder of a lowering; the model does not change."""
    copy, recorder = ModelProto(), Recorder()
    copy.CopyFrom(model)
    report = lower_in_place(copy, Options(target=target, forward=forward), Gate(), recorder, standard=standard)
    return report._replace(bytes_before=model.ByteSize(), bytes_after=copy.ByteSize()), recorder


def page(model: ModelProto, name: str = "model.onnx", target: str = "atlas-a2") -> bytes:
    """The page of a model's lowering."""
    return html_report(*observed(model, target), name)


def parsed(content: bytes, *, scripting: bool = False) -> Element:
    """The page's root element, as a browser with or without scripts has it. Raises the errors of the HTML parser."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(content.decode(), scripting=scripting)
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]  # of SVG, which has a name space
    return root


def text_of(element: Element) -> str:
    """All text in an element."""
    return "".join(element.itertext())


def with_class(root: Element, name: str, tag: str = "*") -> list[Element]:
    """The elements of a class."""
    return [
        element for element in root.iter() if name in element.get("class", "").split() and tag in ("*", element.tag)
    ]


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
