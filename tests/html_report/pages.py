# SPDX-License-Identifier: Apache-2.0

"""Writes pages of models, and parses pages as HTML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import html5lib
from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.entry.in_place import lower_in_place
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.report.html import Recorder, html_report
from poolgrad_lowering.report.report import Report

Element = ET.Element


def observed(
    model: ModelProto, target: str = "atlas-a2", *, forward: bool = True, standard: bool = False
) -> tuple[Report, Recorder]:
    """The report and the recorder of a lowering; the model does not change."""
    copy, recorder = ModelProto(), Recorder()
    copy.CopyFrom(model)
    outcome = lower_in_place(copy, Options(target=target, forward=forward), Gate(), recorder, standard=standard)
    return outcome.report(model.ByteSize(), copy.ByteSize()), recorder


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
