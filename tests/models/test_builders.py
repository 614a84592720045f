# SPDX-License-Identifier: Apache-2.0

"""The builders still build what is committed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from models import catalogue, ort_nets
from models.catalogue import Entry


@pytest.mark.parametrize("name", ort_nets.NETS)
def test_forward_graphs_of_ort_are_valid(name: str) -> None:
    net = ort_nets.NETS[name]
    model = ort_nets.forward(net, seed=1)
    onnx.checker.check_model(model, full_check=True)
    assert sum(node.op_type == "MaxPool" for node in model.graph.node) == net.pools
    assert net.remarks == catalogue.entry(f"ort/{name}").remarks


@pytest.mark.long
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in catalogue.external()])
def test_torch_rebuilds_the_committed_files(entry: Entry, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("another version of torch exports another graph")
    pytest.importorskip("onnxscript")
    from models import torch_joint, torch_nets

    model, _ = torch_joint.export(torch_nets.NETS[entry.file.stem], tmp_path / entry.file.name)
    assert model.SerializeToString() == entry.file.read_bytes()
    data = f"{entry.file.name}.data"
    assert (tmp_path / data).read_bytes() == entry.file.with_name(data).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in catalogue.entries("torch")])
def test_torch_rebuilds_the_committed_graph(entry: Entry) -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("another version of torch exports another graph")
    pytest.importorskip("onnxscript")
    from models import torch_joint, torch_nets

    net = torch_nets.NETS[entry.name.removeprefix("torch/")]
    model, _ = torch_joint.export(net)
    assert net.remarks == entry.remarks
    assert model.SerializeToString() == entry.file.read_bytes()
