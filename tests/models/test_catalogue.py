# SPDX-License-Identifier: Apache-2.0

"""The built graphs are what the manifest says, and compute what their producers computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from models import catalogue
from models.artifact_runs import FOLDERS, RUNS
from models.catalogue import Entry
from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient, run_ort, same_pads

ENTRIES = catalogue.entries()
ALL = [pytest.param(entry, id=entry.name) for entry in ENTRIES]
EAGER = [entry for entry in (*ENTRIES, *catalogue.external()) if entry.producer in ("torch", "torch_external")]
TORCH = [pytest.param(entry, id=entry.name) for entry in EAGER]
ORT = [pytest.param(entry, id=entry.name) for entry in ENTRIES if entry.producer == "ort"]

# A convolution or matrix product of another library adds in another order: a few units in the last place of the
# largest element (2^-23 in float32, 2^-10 in float16). The pool gradient itself adds nothing to it.
TOLERANCE = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 4e-6, np.dtype(np.float16): 8e-3}


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def nodes(entry: Entry, op_type: str) -> list[onnx.NodeProto]:
    return [node for node in onnx.load(entry.file).graph.node if node.op_type == op_type]


def test_manifests_and_folder_agree() -> None:
    listed = [*ENTRIES, *catalogue.spellings(), *catalogue.external()]
    names = [entry.name for entry in listed]
    assert len(set(names)) == len(names) >= 12
    graphs = {path for path in catalogue.BUILT.rglob("*.onnx") if FOLDERS not in path.parents}
    assert {entry.file for entry in listed} == graphs
    arrays = {path.name.split(".")[0] for path in catalogue.BUILT.rglob("*.npz") if FOLDERS not in path.parents}
    assert arrays <= {entry.file.stem for entry in listed}


def test_every_folder_of_artifacts_has_a_run() -> None:
    assert {path.name for path in FOLDERS.iterdir()} == RUNS.keys()
    files = {"checkpoint", "eval_model.onnx", "optimizer_model.onnx", "resumed", "run.npz", "training_model.onnx"}
    assert all({path.name for path in folder.iterdir()} == files for folder in FOLDERS.iterdir())


def test_lookup() -> None:
    assert catalogue.entry("ort/lenet") in catalogue.entries("ort")
    assert catalogue.entries("torch") + catalogue.entries("ort") != []
    with pytest.raises(KeyError, match="no built graph is named 'lenet'"):
        catalogue.entry("lenet")


def test_graphs_cover_the_attributes_of_pooling() -> None:
    pools = [attributes(node) for entry in ENTRIES if entry.sites for node in nodes(entry, "MaxPool")]
    assert {len(pool["kernel_shape"]) for pool in pools} == {1, 2, 3}
    assert {pool.get("auto_pad", b"NOTSET") for pool in pools} == {b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID"}
    assert {pool.get("ceil_mode", 0) for pool in pools} == {0, 1}
    assert any(max(pool.get("dilations", [1])) > 1 for pool in pools)
    assert any(pads[: len(pads) // 2] != pads[len(pads) // 2 :] for pool in pools if (pads := pool.get("pads", [])))
    assert {entry.opset for entry in ENTRIES} >= {12, 15, 16, 17, 18, 21, 23}


@pytest.mark.parametrize("entry", ALL)
def test_row_describes_the_graph(entry: Entry) -> None:
    model = onnx.load(entry.file)
    assert [opset.version for opset in model.opset_import if not opset.domain] == [entry.opset]
    assert entry.remarks
    assert entry.site_count or entry.refused
    if entry.producer == "ort":
        assert len(nodes(entry, "MaxPoolGrad")) == entry.site_count + sum(entry.refused.values())
    elif entry.producer == "torch" and entry.sites:
        adding = [node for node in nodes(entry, "ScatterElements") if attributes(node)["reduction"] == b"add"]
        assert len(adding) == sum(entry.sites.get(form, 0) for form in ("F4", "F5"))
    elif entry.producer in ("ort_module", "torch_legacy"):
        backward = [node for node in model.graph.node if named_operator(node).lower().endswith("backward")]
        assert len(backward) == entry.site_count + sum(entry.refused.values())


def named_operator(node: onnx.NodeProto) -> str:
    """Return the operator that a node of another domain calls: PyTorch's by an attribute, others by their type."""
    return attributes(node).get("operator", b"").decode() or (node.op_type if node.domain else "")


@pytest.mark.parametrize("entry", ALL)
def test_feeds_fit_the_inputs(entry: Entry) -> None:
    feeds = entry.feeds()
    for value in onnx.load(entry.file).graph.input:
        tensor = value.type.tensor_type
        fed = feeds.pop(value.name)
        assert fed.dtype == onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        assert len(fed.shape) == len(tensor.shape.dim)
        assert all(dim.dim_value in (0, size) for dim, size in zip(tensor.shape.dim, fed.shape, strict=True))
    assert not feeds


@pytest.mark.parametrize("entry", TORCH)
def test_onnxruntime_agrees_with_eager_torch(entry: Entry) -> None:
    pytest.importorskip("onnxruntime")
    found = run_ort(onnx.load(entry.file), entry.feeds())
    expected = entry.expected()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        scale = max(1.0, float(np.abs(value).max()))
        np.testing.assert_allclose(found[name], value, rtol=0, atol=TOLERANCE[value.dtype] * scale)


@pytest.mark.parametrize("entry", ORT)
def test_recorded_sites_hold_the_definition(entry: Entry) -> None:
    """onnxruntime-training's own pools and gradients equal the definitions, bit for bit."""
    pools = {node.output[1]: attributes(node) for node in nodes(entry, "MaxPool")}
    for node, site in zip(nodes(entry, "MaxPoolGrad"), entry.site_tensors(), strict=False):
        assert_same_bits(site["dX"], pool_gradient(site["X"].shape, site["dY"], site["Indices"]))
        assert_same_bits(site["Indices"], indices_of(site["X"], **pools[node.input[1]]))


def indices_of(x: np.ndarray[Any, Any], **pool: Any) -> np.ndarray[Any, Any]:
    """Return the Indices of a MaxPool node's attributes over x."""
    auto_pad, _ = pool.pop("auto_pad", b"NOTSET"), pool.pop("storage_order", 0)
    if auto_pad.startswith(b"SAME"):
        upper = auto_pad == b"SAME_UPPER"
        pool["pads"] = same_pads(x.shape[2:], pool["kernel_shape"], pool["strides"], upper=upper)
    return max_pool_indices(x, **pool)


@pytest.mark.parametrize("entry", ORT)
def test_sites_are_recorded_where_the_producer_runs(entry: Entry) -> None:
    recorded = entry.site_count if entry.expected() else 0
    assert len(entry.site_tensors()) == recorded
    assert all(np.isfinite(value).all() for value in entry.expected().values())
