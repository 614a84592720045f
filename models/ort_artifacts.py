# SPDX-License-Identifier: Apache-2.0

"""Builds training graphs with onnxruntime-training's generate_artifacts.

For every row of `ort_nets.NETS`, or for the rows named on the command line, writes the graph, its feeds, what
onnxruntime-training computes for them, and the tensors around every MaxPoolGrad. See README.md for the environment.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.training import artifacts

from models.building import SEED, save
from models.catalogue import Array
from models.ort_nets import NETS, Net, forward


def training_graph(net: Net, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph that computes loss and gradients of the forward `model`."""
    loss = artifacts.LossType.CrossEntropyLoss if net.classifies else artifacts.LossType.MSELoss
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(
            model,
            requires_grad=[weight.name for weight in model.graph.initializer],
            loss=loss,
            artifact_directory=folder,
            loss_input_names=["y"],
            additional_output_names=[value.name for value in model.graph.output if value.name != "y"],
        )
        return onnx.load(Path(folder) / "training_model.onnx")


def feeds(net: Net, model: onnx.ModelProto, training: onnx.ModelProto) -> dict[str, Array]:
    """Return every input of the training graph by name: x, labels or target, weights, and zeros for the buffers that
    accumulate gradients."""
    random = np.random.default_rng(SEED + 1)
    x = random.standard_normal(net.input_shape).astype(helper.tensor_dtype_to_np_dtype(net.dtype))
    known = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
    known |= {"x": x, "lazy_reset_grad": np.array([True])}
    if net.classifies:
        known["labels"] = np.arange(len(x)) % 5
    else:
        y = onnxruntime.InferenceSession(model.SerializeToString()).run(["y"], {"x": x})[0]
        known["target"] = random.standard_normal(y.shape).astype(np.float32)
    return {value.name: known.get(value.name, _zeros(value)) for value in training.graph.input}


def run(training: onnx.ModelProto, arrays: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs by name, and `k:X`, `k:dY`, `k:Indices`, `k:dX` of MaxPoolGrad number k in graph order."""
    pooled = {node.output[1]: node.input[0] for node in training.graph.node if node.op_type == "MaxPool"}
    sites: dict[str, str] = {}
    for k, node in enumerate(node for node in training.graph.node if node.op_type == "MaxPoolGrad"):
        dy, indices = node.input
        sites |= {f"{k}:X": pooled[indices], f"{k}:dY": dy, f"{k}:Indices": indices, f"{k}:dX": node.output[0]}
    outputs = [value.name for value in training.graph.output]
    watched = onnx.ModelProto()
    watched.CopyFrom(training)
    for name in sorted(set(sites.values()) - set(outputs)):
        watched.graph.output.append(helper.make_empty_tensor_value_info(name))
    session = onnxruntime.InferenceSession(watched.SerializeToString())
    names = [*outputs, *sites.values()]
    results = dict(zip(names, session.run(names, arrays), strict=True))
    return {name: results[name] for name in outputs}, {key: results[name] for key, name in sites.items()}


def build(name: str) -> None:
    """Build one row and write it; without outputs if onnxruntime-training cannot run it."""
    net = NETS[name]
    model = forward(net, SEED)
    training = training_graph(net, model)
    inputs = feeds(net, model, training)
    outputs, sites = run(training, inputs) if net.runs else ({}, {})
    arrays = {f"in:{key}": value for key, value in inputs.items()} | {
        f"out:{key}": value for key, value in outputs.items()
    }
    found = {} if net.refused else {"F1": net.pools}
    save(
        "ort",
        name,
        training,
        arrays,
        site_arrays=sites if found else {},
        sites=found,
        refused=dict(net.refused),
        remarks=net.remarks,
    )


def main() -> None:
    """Build the rows named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NETS], help="rows of NETS; all if none is named")
    for name in parser.parse_args().names or NETS:
        build(name)
        print(name)


def _zeros(value: onnx.ValueInfoProto) -> Array:
    """Return zeros of the declared type and shape."""
    tensor = value.type.tensor_type
    shape = [dim.dim_value for dim in tensor.shape.dim]
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


if __name__ == "__main__":
    main()
