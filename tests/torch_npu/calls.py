# SPDX-License-Identifier: Apache-2.0

"""The calls of phase 1 of a pool and its gradient, by torch_npu and by a session, from the host library's trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import onnx.parser

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import create_session
from tests.harness.sessions.host_control import HostLibrary
from tests.harness.torch_npu.client import ASCEND_950, ATLAS_A2, ATLAS_A3
from tests.patterns.aten_graphs import model
from tests.torch_npu.average_pools import AveragePool
from tests.torch_npu.differences import MASK, TENSORS, Call
from tests.torch_npu.pools import Pool

TARGETS = {ASCEND_950: "ascend950", ATLAS_A2: "atlas-a2", ATLAS_A3: "atlas-a3"}
_PHASE_1 = "GetWorkspaceSize"
_LISTS = ("kernelSize", "stride", "padding", "dilation", "outputSize")
_NUMBERS = (
    *("ceilMode", "countIncludePad", "divisorOverride", "cubeMathType"),
    *("deterministic", "workspaceSize", "code"),
)
_OF_A_TENSOR = ("viewDims", "dataType", "stride", "offset", "format", "storageDims")


def read_calls(lines: Iterable[Mapping[str, Any]]) -> list[Call]:
    """The calls of phase 1 in lines of the trace, in their order; there is none but those of pools."""
    made: dict[int, Mapping[str, Any]] = {}
    calls: list[Call] = []
    for line in lines:
        name = line.get("call", "")
        if name == "aclCreateTensor":
            made[line["tensor"]] = line
        elif name == "aclCreateIntArray":
            made[line["array"]] = line
        elif name.startswith(MASK) and name.endswith(_PHASE_1) and line["code"] == 0:
            calls[-1]["through"] = name.removesuffix(_PHASE_1)  # it made the last call
        elif name.endswith(_PHASE_1) and "self" in line:
            call: Call = {"function": name.removesuffix(_PHASE_1)}
            call |= {key: line[key] for key in _NUMBERS if key in line}
            call |= {key: made[line[key]]["value"] or [] for key in _LISTS if line[key]}
            tensors = {key: made[line[key]] for key in TENSORS if line[key]}
            call |= {f"{key}.{of}": tensor[of] for key, tensor in tensors.items() for of in _OF_A_TENSOR}
            calls.append(call)
        elif name.endswith(_PHASE_1) and not name.startswith(MASK):
            raise AssertionError(line)
    return calls


def torch_calls(torch: Any, pool: Pool, dtype: str) -> list[Call]:
    """The calls of torch_npu for the pool and its gradient, as far as it makes them."""
    x = torch.zeros(pool.shape, dtype=getattr(torch, dtype)).npu().requires_grad_()

    def run() -> None:
        y = getattr(torch.nn.functional, pool.function)(x, **pool.arguments)
        torch.autograd.grad(y, x, torch.zeros(y.shape, dtype=y.dtype).npu())

    return _traced(run)


def torch_average_calls(torch: Any, pool: AveragePool, dtype: str) -> list[Call]:
    """The call of torch_npu for the gradient of the average pool."""
    dy, x = (torch.zeros(shape, dtype=getattr(torch, dtype)).npu() for shape in (pool.grad_shape, pool.shape))
    return _traced(lambda: pool.gradient(torch, dy, x))


def _traced(run: Callable[[], object]) -> list[Call]:
    def run_as_far_as_it_goes() -> None:
        try:
            run()
        except RuntimeError as error:
            if "GetWorkspaceSize" not in str(error) and "call aclnn" not in str(error):
                raise

    return read_calls(HostLibrary().trace(run_as_far_as_it_goes))


def session_calls(soc: str, pool: Pool, dtype: str) -> list[Call]:
    """The calls of a session for the pool and its gradient, after the lowering; none if the compiler refuses them."""
    return _lowered_calls(soc, _model_of(pool, dtype), dtype, *_shapes(pool))


def session_average_calls(soc: str, pool: AveragePool, dtype: str) -> list[Call]:
    """The call of a session for the gradient of the average pool, after the lowering; none if it is refused."""
    return _lowered_calls(soc, _average_model_of(pool, dtype), dtype, pool.case.x_shape, pool.case.grad_shape)


def _lowered_calls(soc: str, text: str, dtype: str, x: tuple[int, ...], dy: tuple[int, ...]) -> list[Call]:
    result = lower(onnx.parser.parse_model(text), target=TARGETS[soc])
    if not any(node.domain == "npu" for node in result.model.graph.node):
        return []
    session = create_session(result.model, backend="cann")
    feeds = {"x": np.zeros(x, dtype), "dy": np.zeros(dy, dtype)}
    return read_calls(HostLibrary().trace(lambda: session.run(None, feeds)))


def _shapes(pool: Pool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """x and y in ONNX, where a batch is not left out."""
    planes = pool.shape[: -pool.rank] if pool.is_batched else (1, *pool.shape[: -pool.rank])
    return (*planes, *pool.spatial), (*planes, *map(len, pool.windows))


def _model_of(pool: Pool, dtype: str) -> str:
    """The text of a model; PyTorch's exporters keep the gradient and adaptive pools as PyTorch's operators."""
    element_type = {"float32": "float"}.get(dtype, dtype)
    x, y = (f"{element_type}[{','.join(map(str, shape))}]" for shape in _shapes(pool))
    body = _adaptive(pool) if pool.is_adaptive else _windowed(pool)
    return model("\n".join(body), f"{x} x, {y} dy", f"{y} y, {x} dx")


def _average_model_of(pool: AveragePool, dtype: str) -> str:
    """The text of a model, with PyTorch's operators, or for one axis with that of onnxruntime-training."""
    element_type, case = {"float32": "float"}.get(dtype, dtype), pool.case
    x, dy = (f"{element_type}[{','.join(map(str, shape))}]" for shape in (case.x_shape, case.grad_shape))
    flags = {"ceil": case.ceil_mode, "counts": case.count_include_pad}
    if pool.is_adaptive:
        body = [f"dx = org.pytorch.aten._adaptive_avg_pool{pool.rank}d_backward (dy, x)"]
    elif pool.rank == 1:
        windows = f"kernel_shape={list(case.ksize)}, strides={list(case.strides)}, pads={list(case.pads * 2)}"
        options = f"ceil_mode={int(case.ceil_mode)}, count_include_pad={int(case.count_include_pad)}"
        body = [f"dx = AveragePoolGrad <{windows}, {options}> (dy)"]
    else:
        body = [
            *(
                _constant(name, values)
                for name, values in zip("ksp", (case.ksize, case.strides, case.pads), strict=True)
            ),
            *(f"{name} = Constant <value = bool {{{int(value)}}}> ()" for name, value in flags.items()),
            f"divisor = Constant <value = int64 {{{case.divisor_override}}}> ()",
            f"dx = org.pytorch.aten.avg_pool{pool.rank}d_backward (dy, x, k, s, p, ceil, counts"
            + (", divisor)" if case.divisor_override else ")"),
        ]
    return model("\n".join(body), f"{x} x, {dy} dy", f"{x} dx")


def _constant(name: str, values: Iterable[int]) -> str:
    listed = list(values)
    return f"{name} = Constant <value = int64[{len(listed)}] {{{','.join(map(str, listed))}}}> ()"


def _adaptive(pool: Pool) -> list[str]:
    return [
        _constant("size", pool.arguments["output_size"]),
        f"y, i = org.pytorch.aten.{pool.function} (x, size)",
        f"dx = org.pytorch.aten.{pool.function}_backward (dy, x, i)",
    ]


def _windowed(pool: Pool) -> list[str]:
    windows = pool.arguments
    stride = windows["stride"] or windows["kernel_size"]
    lists = {"k": windows["kernel_size"], "s": stride, "p": windows["padding"], "d": windows["dilation"]}
    k, s, p, d = (list(values) for values in lists.values())
    attributes = f"kernel_shape={k}, strides={s}, pads={p + p}, dilations={d}, ceil_mode={int(windows['ceil_mode'])}"
    return [
        *(_constant(name, values) for name, values in lists.items()),
        f"ceil = Constant <value = bool {{{int(windows['ceil_mode'])}}}> ()",
        f"y, t = MaxPool <{attributes}> (x)",
        f"plane = Constant <value = int64 {{{np.prod(pool.spatial)}}}> ()",
        "i = Mod (t, plane)",
        f"dx = org.pytorch.aten.{pool.function}_with_indices_backward (dy, x, k, s, p, d, ceil, i)",
    ]
