# SPDX-License-Identifier: Apache-2.0

"""Operators of training runtimes as nodes of standard ONNX: those of which plain onnxruntime has kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models.training_operators import example
from poolgrad_lowering import lower, verify
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.verification.result import proven_text, whole_lines


def test_a_model_of_operators_alone_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no site, and yet something is proven."""
    original, lowered = tmp_path / "original.onnx", tmp_path / "lowered.onnx"
    onnx.save(example("Gelu"), original)
    assert main(["lower", str(original), "-o", str(lowered), "--standard", "--verify"]) == 0
    assert "proven: 0 sites by 0 runs, 1 node of 1 operator in standard ONNX, no diff" in capsys.readouterr().out
    assert main(["verify", str(original), str(lowered), "--strict"]) == 0
    assert "nothing to prove" not in capsys.readouterr().err


def test_a_folder_of_operators_alone_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "originals").mkdir()
    onnx.save(example("Gelu"), tmp_path / "originals" / "gelu.onnx")
    folders = [str(tmp_path / "originals"), str(tmp_path / "lowered")]
    assert main(["lower", folders[0], "-o", folders[1], "--standard"]) == 0
    assert main(["verify", *folders, "--strict"]) == 0
    assert "1 proven, 0 without a site" in capsys.readouterr().out


def test_an_epsilon_counts() -> None:
    """Beside the variance of ordinary numbers it does not: smaller ones are tried too."""
    original = example("LayerNormalization")
    lowered = lower(original, standard=True).model
    found = verify(original, lowered)
    assert found.proven
    assert "1 node of 1 operator" in proven_text(found)
    assert whole_lines(found)[0].startswith("whole model with the operators put back")
    [epsilon] = [
        tensor for tensor in lowered.graph.initializer if onnx.numpy_helper.to_array(tensor) == np.float32(1e-5)
    ]
    epsilon.CopyFrom(onnx.numpy_helper.from_array(np.array(1.02e-5, np.float32), epsilon.name))
    [result] = verify(original, lowered).operators
    assert result.status == "differs"


def test_an_operator_without_a_kernel_needs_onnxruntime_training() -> None:
    original = example("ConvTransposeGrad")
    [result] = verify(original, lower(original, standard=True).model).operators
    assert result.status == "unproven"
    assert str(result.reason).startswith("it needs onnxruntime-training: ")


def test_sizes_that_cannot_all_be_one_number() -> None:
    original = example("Gelu")
    for value in (*original.graph.input, *original.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    original.graph.input.append(onnx.helper.make_tensor_value_info("other", onnx.TensorProto.FLOAT, ["M", 4]))
    shape = onnx.numpy_helper.from_array(np.array([3, 4]), "shape")
    original.graph.initializer.append(shape)
    original.graph.node.insert(0, onnx.helper.make_node("Reshape", ["other", "shape"], ["three"]))
    original.graph.output.append(onnx.helper.make_tensor_value_info("three", onnx.TensorProto.FLOAT, [3, 4]))
    [result] = verify(original, lower(original, standard=True).model).operators
    assert result.status == "unproven"
    assert str(result.reason).startswith(
        "with inputs whose symbolic sizes are all one number, onnxruntime does not run"
    )


def test_the_gradient_of_a_dilated_average_needs_no_kernel() -> None:
    """That of onnxruntime-training is wrong: it ignores dilations."""
    windows = "<kernel_shape = [3,2], dilations = [1,3], strides = [2,2]>"
    original = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 19]> g (float[1,1,5,7] x) => (float[1,1,5,7] dX)'
        f" {{ y = AveragePool {windows} (x) dX = AveragePoolGrad {windows} (y) }}"
    )
    lowered = lower(original, standard=True).model
    [result] = verify(original, lowered, whole_model=False).operators
    assert (result.operator, result.status) == ("AveragePoolGrad", "proven")
    [divisor] = [tensor for tensor in lowered.graph.initializer if np.all(onnx.numpy_helper.to_array(tensor) == 6)]
    divisor.CopyFrom(onnx.numpy_helper.from_array(np.full_like(onnx.numpy_helper.to_array(divisor), 5), divisor.name))
    assert [found.status for found in verify(original, lowered, whole_model=False).operators] == ["differs"]
