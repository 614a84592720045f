# SPDX-License-Identifier: Apache-2.0

"""The driver of the stand-in, with a plugin whose callbacks do one thing each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.ge.compiling import ARM, NATIVE, OLD_STRINGS, SANITIZED, SOURCES, plugin, standin
from tests.harness.ge.driver import ONNX, Attribute, Plugin, PluginError, Registration, Tensor

if not NATIVE.compiler:
    pytest.skip("there is no C++ compiler", allow_module_level=True)

SAMPLE = SOURCES / "sample_plugin.cpp"
TENSORS: dict[str, Any] = {"inputs": ["x"], "outputs": ["y", "argmax"]}
SYMBOLS = """
ge::AscendString::AscendString(char const*)
ge::AscendString::GetString() const
ge::Operator::GetAttr(char const*, ge::AscendString&) const
ge::Operator::GetInputDesc(unsigned int) const
ge::Operator::GetOutputDesc(unsigned int) const
ge::Operator::SetAttr(char const*, bool)
ge::Operator::SetAttr(char const*, ge::AscendString const&)
ge::Operator::SetAttr(char const*, long)
ge::Operator::SetAttr(char const*, std::vector<long, std::allocator<long> > const&)
ge::Operator::UpdateInputDesc(char const*, ge::TensorDesc const&)
ge::Operator::UpdateOutputDesc(char const*, ge::TensorDesc const&)
ge::TensorDesc::SetFormat(ge::Format)
ge::TensorDesc::SetOriginFormat(ge::Format)
domi::OpReceiver::OpReceiver(domi::OpRegistrationData&)
domi::OpRegistrationData::FrameworkType(domi::FrameworkType const&)
domi::OpRegistrationData::ImplyType(domi::ImplyType const&)
domi::OpRegistrationData::OpRegistrationData(char const*)
domi::OpRegistrationData::OriginOpType(std::vector<ge::AscendString, std::allocator<ge::AscendString> > const&)
domi::OpRegistrationData::ParseParamsByOperatorFn(std::function<unsigned int (ge::Operator const&, ge::Operator&)> const&)
domi::OpRegistrationData::~OpRegistrationData()
""".strip().splitlines()  # noqa: E501
"""The symbols of GE that a plugin may need: the same in CANN of 2024 and of 2026."""


@pytest.fixture(scope="module")
def sample() -> Iterator[Plugin]:
    with Plugin(plugin([SAMPLE])) as opened:
        yield opened


def parse(opened: Plugin, operator: str, attribute: str = "{}") -> Any:
    source = {"attribute": attribute, "op_type": f"sample::1::{operator}", "input": ["a", "b"]}
    return opened.parse(f"sample::1::{operator}", source, **TENSORS, defaults={"kept": [1, 1]})


def test_registrations_are_listed_and_the_first_one_of_a_key_counts(sample: Plugin) -> None:
    assert sorted(sample.registrations) == [f"sample::1::{name}" for name in ("Crash", "Echo", "Fail", "Throw")]
    assert sample.registrations["sample::1::Echo"] == Registration("Echo", ONNX, 1, by_operator=True)


def test_attributes_come_back_with_their_types_and_tensors_with_their_formats(sample: Plugin) -> None:
    text = '{"attribute":[{"name":"\\n\\"é\\001"}]}\n'
    parsed = parse(sample, "Echo", text)
    assert parsed.status == 0
    assert parsed.attributes == {
        "flag": Attribute("BOOL", True),
        "kept": Attribute("LIST_INT", [1, 1]),
        "known": Attribute("BOOL", True),
        "list": Attribute("LIST_INT", [3, 0]),
        "number": Attribute("INT", -7),
        "op_type": Attribute("STRING", "sample::1::Echo"),
        "text": Attribute("STRING", text),
        "unknown": Attribute("BOOL", False),
    }
    assert parsed.inputs == [Tensor("x", 30, 27)]
    assert parsed.outputs == [Tensor("y", 0, 2), Tensor("argmax", 2, 2)]


def test_what_a_plugin_writes_is_kept_with_the_call_that_wrote_it(sample: Plugin) -> None:
    failed = parse(sample, "Fail")
    assert failed.status != 0
    assert failed.written == "refused\nand said so\n"
    assert not parse(sample, "Echo").written


@pytest.mark.parametrize(("operator", "message"), [("Throw", "left the callback"), ("Crash", "status -6")])
def test_a_crash_ends_the_process_and_is_told(operator: str, message: str) -> None:
    with Plugin(plugin([SAMPLE])) as opened:
        with pytest.raises(PluginError, match=message):
            parse(opened, operator)
        with pytest.raises(PluginError):
            parse(opened, "Echo")


def test_a_library_that_does_not_open_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "calls.cpp"
    missing.write_text("void Nowhere(); __attribute__((constructor)) static void Run() { Nowhere(); }\n")
    with pytest.raises(PluginError, match=r"undefined symbol: .*Nowhere"):
        Plugin(plugin([missing]))


@pytest.mark.atc
@pytest.mark.parametrize("of_plugin", [(), OLD_STRINGS])
@pytest.mark.parametrize("of_standin", [(), OLD_STRINGS])
def test_either_abi_of_strings_opens_a_plugin_of_either(
    of_standin: tuple[str, ...], of_plugin: tuple[str, ...]
) -> None:
    with Plugin(plugin([SAMPLE], NATIVE, *of_plugin), NATIVE, *of_standin) as opened:
        assert parse(opened, "Echo").attributes["list"] == Attribute("LIST_INT", [3, 0])


@pytest.mark.atc
def test_on_an_emulated_arm() -> None:
    with Plugin(plugin([SAMPLE], ARM), ARM) as opened:
        assert parse(opened, "Echo").attributes["list"] == Attribute("LIST_INT", [3, 0])


@pytest.mark.atc
def test_under_sanitizers() -> None:
    with Plugin(plugin([SAMPLE], NATIVE, *SANITIZED), NATIVE, *SANITIZED) as opened:
        assert parse(opened, "Echo").status == 0


@pytest.mark.parametrize("abi", [(), pytest.param(OLD_STRINGS, marks=pytest.mark.atc)])
def test_the_libraries_have_the_symbols_that_a_plugin_needs(abi: tuple[str, ...]) -> None:
    folder = standin(NATIVE, *abi)
    command = ["nm", "-DC", "--defined-only", folder / "libgraph.so", folder / "libregister.so"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    defined = {line[19:] for line in listed.splitlines() if line[17:18] == "T"}
    assert set(SYMBOLS) - defined == set()
    assert len(SYMBOLS) == 20
