# SPDX-License-Identifier: Apache-2.0

"""The library of the plugin that ships: its symbols, and its callbacks over the stand-in for GE."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import AttributeProto

from poolgrad_lowering.dialect.op import DOMAIN, VERSION
from poolgrad_lowering.dialect.ops import OPS
from tests.atc.shipped import library_of_wheel, shipped_library
from tests.atc.test_ge_driver import SYMBOLS
from tests.atc.test_plugin_attributes import BOOLS, GE_NAMES, GRADIENT, NO_PROTOTYPE, RESNET_STEM
from tests.harness.ge.compiling import ARM, NATIVE, OLD_STRINGS
from tests.harness.ge.driver import ONNX, SUCCESS, Attribute, Parsed, Plugin, Registration, Tensor

NCHW, ND, NCDHW, TVM = 0, 2, 30, 1  # GE's numbers
LAYOUTS = {"MaxPoolGradWithArgmaxV3": NCHW, "MaxPoolWithArgmaxV3": NCHW} | dict.fromkeys(
    ("AvgPool3DGrad", "AvgPoolV2Grad", "AdaptiveAvgPool3dGrad", "AdaptiveAvgPool2dGrad"), ND
)
INTS = {
    "ksize": [1, 3, 3, 3],
    "strides": [1, 1, 2, 3],
    "pads": [1, 0, 1, 0, 1, 0],
    "dilation": [1, 2, 1],
    "output_size": [4, 5, 6],
    "orig_input_shape": [2, 3, 9, 8],
}


@pytest.fixture(scope="module")
def shipped_path() -> Path:
    return shipped_library()


@pytest.fixture(scope="module")
def new_strings(shipped_path: Path) -> Iterator[Plugin]:
    with Plugin(shipped_path) as plugin:
        yield plugin


@pytest.fixture(scope="module")
def old_strings(shipped_path: Path) -> Iterator[Plugin]:
    with Plugin(shipped_path, NATIVE, *OLD_STRINGS) as plugin:
        yield plugin


@pytest.fixture(scope="module")
def on_arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """The library of the wheel for Arm, in an emulator."""
    with Plugin(library_of_wheel("aarch64", tmp_path_factory.mktemp("arm")), ARM) as plugin:
        yield plugin


@pytest.fixture(params=["new_strings", "old_strings", pytest.param("on_arm", marks=pytest.mark.aarch64)])
def opened(request: pytest.FixtureRequest) -> Plugin:
    """The library over stand-ins of either string ABI, and on the other machine."""
    return request.getfixturevalue(request.param)


def key(op: str) -> str:
    return f"{DOMAIN}::{VERSION}::{op}"


def names(library: Path, *options: str) -> list[str]:
    """What nm prints of each dynamic symbol, without its address."""
    listed = subprocess.run(["nm", "-DC", *options, library], capture_output=True, text=True, check=True).stdout
    return [line[19:] for line in listed.splitlines()]


def needed(library: Path) -> set[str]:
    listed = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    return {line.partition("[")[2].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line}


def test_the_library_asks_ge_for_twenty_symbols(shipped_path: Path) -> None:
    asked = {name for name in names(shipped_path, "--undefined-only") if name.startswith(("ge::", "domi::"))}
    assert asked == set(SYMBOLS)
    assert [name for name in asked if "std::string" in name or "basic_string" in name or "cxx11" in name] == []


def test_the_library_lets_nothing_out(shipped_path: Path) -> None:
    assert names(shipped_path, "--defined-only") == []


def test_the_library_names_those_of_cann(shipped_path: Path) -> None:
    assert {"libgraph.so", "libregister.so"} <= needed(shipped_path)


@pytest.mark.parametrize("op", OPS)
def test_the_keys_are_in_the_library_as_text(shipped_path: Path, op: str) -> None:
    """`poolgrad doctor` recognises the plugin by them."""
    assert f"{key(op)}\0".encode() in shipped_path.read_bytes()


def test_every_operator_of_the_dialect_is_registered(opened: Plugin) -> None:
    types = {op: op for op in OPS} | {NO_PROTOTYPE: GRADIENT}
    assert opened.registrations == {
        key(op): Registration(ge_type, ONNX, TVM, by_operator=True) for op, ge_type in types.items()
    }


def parse(opened: Plugin, op: str, text: str | None, name: str = "pool") -> Parsed:
    """What the callback makes of a node whose attributes are this text."""
    source = {"name": name, "op_type": key(op), "domain": DOMAIN} | ({} if text is None else {"attribute": text})
    renamed = GE_NAMES.get(op, {})
    return opened.parse(
        key(op),
        source,
        inputs=[operand.name for operand in OPS[op].inputs],
        outputs=[renamed.get(operand.name, operand.name) for operand in OPS[op].outputs],
    )


def node(op: str) -> tuple[str, dict[str, Attribute]]:
    """GE's text of a node with a value for each attribute, and what GE's operator has to get."""
    entries, expected = [], {}
    for attribute in OPS[op].attributes:
        entry: dict[str, Any] = {"name": attribute.name, "type": int(attribute.type)}
        if attribute.name in INTS:
            values = INTS[attribute.name][-attribute.length :]
            entry["ints"], expected[attribute.name] = values, Attribute("LIST_INT", values)
        elif attribute.name in BOOLS:
            value = max(attribute.allowed)
            entry["i"], expected[attribute.name] = value, Attribute("BOOL", bool(value))
        elif attribute.name == "divisor_override":
            entry["i"], expected[attribute.name] = 7, Attribute("INT", 7)
        elif attribute.type == AttributeProto.STRING:
            entry["s"], expected[attribute.name] = attribute.default, Attribute("STRING", attribute.default)
        elif attribute.name in ("dtype", "indices_dtype"):
            entry["i"], expected[attribute.name] = 9, Attribute("INT", 9)
        else:
            assert attribute.name.startswith("onnx_")
        entries.append(entry)
    return json.dumps({"attribute": entries}, indent=2), expected


@pytest.mark.parametrize("op", [op for op in OPS if op != NO_PROTOTYPE])
def test_a_node_becomes_an_operator_of_ge(opened: Plugin, op: str) -> None:
    text, expected = node(op)
    parsed = parse(opened, op, text)
    assert parsed.status == SUCCESS, parsed.written
    assert parsed.attributes == expected
    tensors = [*parsed.inputs, *parsed.outputs]
    layout = LAYOUTS.get(op, NCDHW)
    assert tensors == [Tensor(tensor.name, layout, layout) for tensor in tensors]
    assert len(tensors) == len(OPS[op].inputs) + len(OPS[op].outputs)
    assert parsed.written == ""


def test_a_zero_that_ge_leaves_out(opened: Plugin) -> None:
    parsed = parse(opened, GRADIENT, RESNET_STEM)
    assert parsed.attributes["ceil_mode"] == Attribute("BOOL", False)
    assert parsed.attributes["pads"] == Attribute("LIST_INT", [0, 1, 1])


@pytest.mark.parametrize(
    ("op", "text", "message"),
    [
        (GRADIENT, None, "attribute 'ksize' is missing; write the model again with 'poolgrad export-atc'"),
        (GRADIENT, "{", "GE's attributes: not JSON: no string at byte 1"),
        (GRADIENT, RESNET_STEM.replace("pads", "pods"), "attribute 'pads' is missing"),
        (NO_PROTOTYPE, None, "CANN's graphs have no such operator; write the model with 'poolgrad export-atc'"),
    ],
)
def test_a_refusal_names_the_node_and_what_to_do(opened: Plugin, op: str, text: str | None, message: str) -> None:
    parsed = parse(opened, op, text, name="grad\n1")
    assert parsed.status not in (SUCCESS, 1)
    assert parsed.written.startswith(f"poolgrad: node 'grad\\x0a1' ({key(op)}): {message}")
    assert parsed.written.count("\n") == 1


def test_a_tensor_that_ge_does_not_have(opened: Plugin) -> None:
    parsed = opened.parse(key(GRADIENT), {"attribute": RESNET_STEM}, inputs=["x", "grad"], outputs=["y"])
    assert parsed.status != SUCCESS
    assert "GE did not set the format of input 'argmax', status " in parsed.written
