# SPDX-License-Identifier: Apache-2.0

"""Builds joint forward and backward graphs with torch's exporter: loss and parameter gradients as outputs.

For every row of `torch_nets.NETS`, or for the rows named on the command line, writes the graph, its feeds, and the
outputs of eager torch for them. See README.md for the environment.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.experimental import _export_forward_backward

from models.building import SEED, save
from models.catalogue import Array
from models.torch_decompositions import NEEDED
from models.torch_nets import NETS, Net

ADDING = ("F4", "F5")
"""The forms that scatter with addition."""


class Loss(nn.Module):
    """A network and its loss as one module, as a joint export requires."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.body = net.build()
        self.loss = net.loss

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the scalar loss of the input x against the target t."""
        return self.loss(self.body(x), t)


class Joint(nn.Module):
    """A joint program as a module, because the exporter drops those outputs of a program that are gradients."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.graph = program.graph_module
        for name in program.graph_signature.parameters:
            self.register_buffer(name.replace(".", "_"), program.state_dict[name].detach())

    def forward(self, x: Tensor, t: Tensor) -> tuple[Tensor, ...]:
        """Return the loss and the gradient of every parameter."""
        return tuple(self.graph(*self._buffers.values(), x, t))


def feeds(net: Net) -> tuple[Tensor, Tensor]:
    """Return a normally distributed input, and labels or a target with the shape of the output."""
    x = torch.randn(net.input_shape, dtype=net.dtype)
    if net.loss is nn.functional.cross_entropy:
        return x, torch.arange(net.input_shape[0]) % net.classes
    return x, torch.randn(net.build().to(net.dtype)(x).shape, dtype=net.dtype)


def export(net: Net, file: Path | None = None) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the joint graph and its npz contents: `in:<input>`, and `out:<output>` as eager torch computes it.

    With a `file`, the exporter writes the graph there and large tensors beside it as external data; the returned graph
    then refers to them.
    """
    torch.manual_seed(SEED)
    x, t = feeds(net)
    module = Loss(net).to(net.dtype)
    batch = {0: torch.export.Dim("batch")} if net.dynamic_batch else None
    forward = torch.export.export(module, (x, t), dynamic_shapes={"x": batch, "t": batch})
    joint = _export_forward_backward(forward).run_decompositions({**NEEDED, **net.decompositions})
    program = torch.onnx.export(
        Joint(joint),
        (x, t),
        file,
        dynamic_shapes={"x": batch, "t": batch},
        dynamo=True,
        opset_version=net.opset,
        optimize=net.optimize,
        verbose=False,
    )
    assert program is not None
    model = without_stack_traces(program.model_proto if file is None else onnx.load(file, load_external_data=False))

    loss = module(x, t)
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    arrays = {"in:x": x.numpy(), "in:t": t.numpy()}
    for value, result in zip(model.graph.output, (loss, *gradients), strict=True):
        arrays[f"out:{value.name}"] = result.detach().numpy()
    return model, arrays


def without_stack_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without the metadata in which the exporter records paths of the machine it ran on."""
    for node in model.graph.node:
        del node.metadata_props[:]
    return model


def additions(model: onnx.ModelProto) -> int:
    """Return the number of nodes that scatter with addition: one per pool gradient of the forms `ADDING`."""
    return sum(
        attribute.s == b"add"
        for node in model.graph.node
        if node.op_type == "ScatterElements"
        for attribute in node.attribute
    )


def row(name: str, net: Net, model: onnx.ModelProto) -> dict[str, Any]:
    """Return the fields of the manifest row of an exported graph.

    Raises:
        ValueError: the number of pool gradients in the graph is not the number of pools of the row.
    """
    wanted = net.pools if net.form in ADDING else 0
    if net.pools and additions(model) != wanted:
        raise ValueError(f"{name}: {additions(model)} scatters with addition, but {wanted} are expected")
    refused = dict(net.refused)
    if net.loss is nn.functional.cross_entropy:
        refused["one-hot scatter of the loss"] = 1
    return {"sites": {net.form: net.pools} if net.pools else {}, "refused": refused, "remarks": net.remarks}


def build(name: str) -> None:
    """Export one row and write it. Raises `ValueError` as `row` does."""
    net = NETS[name]
    model, arrays = export(net)
    save("torch", name, model, arrays, **row(name, net, model))


def main() -> None:
    """Build the rows named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NETS], help="rows of NETS; all if none is named")
    for name in parser.parse_args().names or NETS:
        build(name)
        print(name)


if __name__ == "__main__":
    main()
