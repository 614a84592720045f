# SPDX-License-Identifier: Apache-2.0

"""torch_npu's tensors as inputs and outputs of a session, where they are: the function on docs/runtime.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from poolgrad_lowering.runtime import create_session
from tests.doc_blocks import ROOT, blocks
from tests.harness.sessions.host_control import HostLibrary
from tests.harness.torch_npu.client import ASCEND_950, ATLAS_A2, ATLAS_A3, QUEUES, STRICT, run_client, start
from tests.oracles import assert_same_bits
from tests.runtime.device_models import ALONE, alone_feeds, model_of
from tests.torch_npu.pools import Pool
from tests.torch_npu.tensors import DTYPES, to_array, to_tensor

pytestmark = pytest.mark.torch_npu

ELEMENT_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
}
WAIT = "torch.npu.synchronize()"
SHAPE = (2, 3, 8, 6)
POOL = Pool(
    "max_pool2d",
    SHAPE,
    {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False},
)


def run_of_the_page(*, without: str = "") -> Callable[..., None]:
    """`run_on_npu` of the page, without a line."""
    [text] = [block.text for block in blocks(ROOT / "docs" / "runtime.md") if block.not_run == "needs torch_npu"]
    assert text.count(WAIT) == 1
    names: dict[str, Any] = {}
    exec(compile(text.replace(without, "") if without else text, "page", "exec"), names)
    run: Callable[..., None] = names["run_on_npu"]
    return run


def open_gradient(dtype: str) -> Any:
    """A session of the gradient alone, which trusts its indices."""
    text = ALONE.replace("float[", f"{dtype}[") if dtype != "float32" else ALONE
    return create_session(model_of(text, ELEMENT_TYPES[dtype]), backend="cann", check_indices="0")


def operands(torch: Any, dtype: str, seed: int) -> tuple[dict[str, Any], Any]:
    """Tensors of the NPU, the incoming gradient being a result of torch_npu, and the expected gradient."""
    feeds = alone_feeds(*SHAPE, seed=seed)
    tensors = {name: to_tensor(torch, array).npu() for name, array in feeds.items() if name == "argmax"}
    tensors["x"] = to_tensor(torch, feeds["x"].astype(DTYPES[dtype])).npu()
    tensors["grad"] = torch.nn.functional.max_pool2d(tensors["x"], 2)
    dy = to_array(torch, torch.nn.functional.max_pool2d(tensors["x"].cpu(), 2))
    return tensors, POOL.expected_gradient(dy, feeds["argmax"].astype(np.int64))


def check_gradients() -> None:
    """What torch_npu computes goes through a session and back to it without a copy."""
    torch, run_on_npu, library = start(), run_of_the_page(), HostLibrary()
    for seed, dtype in enumerate(DTYPES):
        session = open_gradient(dtype)
        tensors, expected = operands(torch, dtype, seed)
        dx = torch.empty(SHAPE, dtype=getattr(torch, dtype), device="npu")
        calls = library.trace(lambda session=session, tensors=tensors, dx=dx: run_on_npu(session, tensors, {"dx": dx}))
        assert not [call["call"] for call in calls if "Memcpy" in call.get("call", "")]
        pooled = torch.nn.functional.max_pool2d(dx, 2)
        assert_same_bits(to_array(torch, dx), expected)
        assert_same_bits(to_array(torch, pooled), to_array(torch, torch.nn.functional.max_pool2d(dx.cpu(), 2)))


def check_without_waiting() -> None:
    """The host library finds that the session reads what torch_npu may not have computed yet."""
    torch, run_on_npu, library = start(), run_of_the_page(without=WAIT), HostLibrary()
    session = open_gradient("float32")
    tensors, _ = operands(torch, "float32", 0)
    tensors["grad"] = torch.nn.functional.max_pool2d(tensors["x"], 2)
    run_on_npu(session, tensors, {"dx": torch.empty(SHAPE, device="npu")})
    torch.npu.synchronize()
    assert {found["violation"] for found in library.violations()} == {"race"}
    library.reset()


@pytest.mark.parametrize(
    ("soc", "queue"), [*((ASCEND_950, queue) for queue in QUEUES), (ATLAS_A2, "1"), (ATLAS_A3, "2")]
)
def test_gradients(soc: str, queue: str) -> None:
    run_client(check_gradients, soc=soc, queue=queue, **STRICT)


def test_without_waiting() -> None:
    """Without the queue, whose thread may call aclnn after the session."""
    run_client(check_without_waiting, queue="0", tolerated={"race"}, **STRICT)
