# SPDX-License-Identifier: Apache-2.0

"""What cannot be exported or run is refused by one sentence that names the cause; wrapped models are exported."""

from __future__ import annotations

import random
import re
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import SessionError, TrainingLoop, create_session
from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step
from poolgrad_lowering.torch.explanations import explanation, sentence

X = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Of(nn.Module):
    """A convolution, and a function of its result."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(3, 3, 1), function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.conv(x))


def export(model: nn.Module, loss: Any = lambda output, _: output.pow(2).mean()) -> Any:
    return export_training_step(model, loss, (X, torch.zeros(1)), optimizer="sgd")


TURN = torch.tensor(1j)


def _chosen(y: torch.Tensor) -> torch.Tensor:
    return y[y > 1]


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "an if": (
        lambda: Of(lambda y: y if y.sum() > 0 else -y),
        r"in <lambda> \(test_messages\.py, line \d+\).*torch\.where",
    ),
    "a sparse tensor": (
        lambda: Of(lambda y: torch.sparse_coo_tensor(torch.ones(1, 4, dtype=torch.int64), y[0, 0, 0]).to_dense()),
        r"makes a sparse tensor, in <lambda> \(test_messages\.py, line \d+\).*make a dense one",
    ),
    "a sparse matrix": (
        lambda: Of(lambda y: torch.sparse.mm(torch.eye(4).to_sparse(), y[0, 0])),
        r"makes a sparse tensor, in <lambda>",
    ),
    "sizes of numbers": (
        lambda: Of(lambda y: z if (z := y.repeat_interleave(torch.tensor([1, 2, 3]), 1)).numel() > 9 else -z),
        r"the numbers in a tensor, by torch\.Tensor\.repeat_interleave in <lambda>",
    ),
    "numbers inside of a function": (
        lambda: Of(lambda y: torch.cov(y.flatten(1), aweights=y[0, 0].flatten().abs().repeat(3))),
        r"the numbers in a tensor, by torch\.cov in <lambda>",
    ),
    "an if of what a size depends on": (
        lambda: Of(lambda y: y if torch.nonzero(y > 0).shape[0] > 3 else -y),
        r"the numbers in a tensor, by torch\.nonzero in <lambda>",
    ),
    "an if beside a size": (
        lambda: Of(lambda y: y if y[y > 1].sum() > 0 else -y),
        r"the numbers in a tensor, by torch\.Tensor\.__bool__ in <lambda>",
    ),
    "a scalar or nothing": (
        lambda: Of(lambda y: torch.masked_select(y.sum(), y.sum() > 0)),
        r"the numbers in a tensor, by torch\.masked_select in <lambda>",
    ),
    "parts of numbers": (
        lambda: Of(lambda y: z if (z := torch.tensor_split(y, torch.tensor([1, 2]), 1)[0]).numel() > 9 else -z),
        r"the numbers in a tensor, by torch\.tensor_split in <lambda>",
    ),
    "int()": (
        lambda: Of(lambda y: y[:, int(y.argmax()) % 3]),
        r"the numbers in a tensor, by torch\.Tensor\.__int__ in <lambda>",
    ),
    "packed sequences": (
        lambda: Of(lambda y: pack_padded_sequence(y.flatten(2), torch.tensor([3, 1]), batch_first=True).data),
        "a sequence is packed by the numbers in a tensor, its lengths, in .*Give the layer the padded sequences",
    ),
    "strides": (
        lambda: Of(lambda y: y.as_strided((2, 2), (1, 2))),
        r"prims\.as_strided_scatter\.default, in <lambda> \(",
    ),
    "strides of a part": (
        lambda: Of(lambda y: y[:, 0].as_strided((2, 2), (48, 1)) * y.mean()),
        r"as_strided reads memory that is not all of its tensor, in <lambda> \(.*on a contiguous tensor",
    ),
    "strides of an expansion": (
        lambda: Of(lambda y: y[:, :1].expand(2, 3, 4, 4).as_strided((2, 2), (1, 1)) * y.mean()),
        r"as_strided reads memory that is not all of its tensor, in <lambda> \(",
    ),
    "an older layer": (
        lambda: Of(nn.CrossMapLRN2d(3)),
        "the CrossMapLRN2d 'function' computes in PyTorch's memory.*LocalResponseNorm",
    ),
    "torch.cond": (
        lambda: Of(lambda y: torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,))),
        r"the model calls torch's cond, .*torch\.where",
    ),
    "windows changed in place": (
        lambda: Of(lambda y: (z := y.clone(), z.unfold(3, 1, 2)[:, :2].zero_())[0]),
        "changes what `unfold` returns, a view of a tensor, in place",
    ),
    "values of another type": (
        lambda: Of(lambda y: torch.zeros(2, 3).index_put_((torch.tensor([1]),), y[0, :, 0, 0].bfloat16())),
        r"values of torch\.bfloat16 are put into a tensor of torch\.float32",
    ),
    "types that a trace does not take": (
        lambda: Of(lambda y: torch.ops.aten._grouped_mm(y[0, 0], y[0, 0][None], offs=torch.ones(1, dtype=torch.int32))),
        r"cannot trace the training step, in <lambda> \(test_messages.py, line \d+\): Expected inputs of BF16",
    ),
    "a number for numpy": (
        lambda: Of(lambda y: y * np.random.poisson(y.sum().abs().item())),
        r"the numbers in a tensor, by torch\.Tensor\.item in <lambda> \(test_messages",
    ),
    "a number for Python": (
        lambda: Of(lambda y: y * random.Random(y.sum().item()).random()),
        r"cannot trace the training step, in <lambda> \(test_messages",
    ),
    "a function that needs the size of another": (
        lambda: Of(lambda y: _chosen(y) if len(_chosen(y)) > 3 else -y),
        r"by torch\.Tensor\.__getitem__ in _chosen \(\S+, line \d+\), which <lambda> \(\S+, line \d+\) needs: ",
    ),
    "a size that the gradient depends on": (
        lambda: Of(lambda y: y[y > 1].cumprod(0)),
        r"the numbers in a tensor, by torch\.Tensor\.__getitem__ in <lambda>",
    ),
    "an array of numpy": (
        lambda: Of(lambda y: y * y.detach().numpy().mean()),
        r"the numbers in a tensor, by torch\.Tensor\.numpy in <lambda>",
    ),
    "no operator": (
        lambda: Of(nn.FractionalMaxPool2d(2, output_size=2)),
        r"the operator aten\.fractional_max_pool2d\.default, in forward \(test_messages\.py, line \d+\): use a MaxPool",
    ),
    "no operator in a layer": (
        lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.FractionalMaxPool2d(2, output_size=2)),
        r"fractional_max_pool2d\.default, in the layer '1': use a MaxPool",
    ),
    "no operator in a function": (
        lambda: Of(lambda y: torch.special.i0(2 * y)),
        r"the operator prims\.bessel_i0\.default, in <lambda> \(test_messages\.py, line \d+\)$",
    ),
    "no operator of a gradient": (
        lambda: Of(lambda y: torch.grid_sampler_2d(y, y[:, :2].movedim(1, 3), 0, 0, False)),
        r"grid_sampler_2d_backward\.default, in <lambda> \(test_messages\.py, line \d+\): use torch\.nn\.functional",
    ),
    "a decomposition": (
        lambda: Of(torch.linalg.svdvals),
        r"aten\._linalg_svd\.default, in forward \(test_messages\.py, line \d+\): compute the decomposition outside",
    ),
    "complex constants": (
        lambda: Of(lambda y: (y * TURN).abs()),
        r"complex numbers.* by aten\.mul\.Tensor",
    ),
    "a number of Python": (lambda: Of(lambda y: y * random.random()), "outside of its modules, maybe Python's random"),
    "a number of numpy": (lambda: Of(lambda y: y * float(np.random.rand())), "outside of its modules, maybe Python's"),
    "no gradient": (
        lambda: Of(lambda y: torch.autograd.grad(y.detach().sum(), [y])[0]),
        "a gradient is computed in <lambda>.*requires_grad",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_sentence_with_its_cause(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(TorchExportError, match=said) as raised:
        export(make())
    assert not re.search(r"\n|\x1b|:$", str(raised.value))


def test_messages_of_torch_are_cut_where_a_list_begins() -> None:
    assert sentence(RuntimeError("\n It is \x1b[96mstep 2\x1b[0m. Next steps:\n- an issue")) == "It is step 2"
    assert sentence(RuntimeError("Tried these:\n- one")) == "Tried these"
    assert sentence(RuntimeError("")) == "RuntimeError"
    outer = RuntimeError("Failed. Next steps:")
    outer.__cause__ = ValueError("x is 3: it takes 4")
    assert explanation(outer, "torch cannot export it") == "torch cannot export it: x is 3: it takes 4"


def wrappers() -> dict[str, Callable[[nn.Module], Any]]:
    return {
        "compiled": torch.compile,
        "parallel": nn.DataParallel,
        "both": lambda net: torch.compile(nn.DataParallel(net)),
    }


@pytest.mark.parametrize("wrap", wrappers().values(), ids=wrappers())
def test_a_wrapped_model_is_the_model(wrap: Callable[[nn.Module], Any]) -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.MaxPool2d(2))
    wrapped = wrap(net)
    assert export_forward(wrapped, (X,)).inputs == ("weight.0.weight", "weight.0.bias", "input")
    step = export(wrapped)
    assert step.values.keys() >= {"weight.0.weight", "weight.0.bias"}
    step.load_into(wrapped, {name: value + 1 for name, value in step.values.items()})
    assert np.array_equal(net[0].bias.detach().numpy(), step.values["weight.0.bias"] + 1)


def test_a_part_that_is_compiled() -> None:
    part = nn.Conv2d(3, 2, 1)
    part.compile()
    export(nn.Sequential(part, torch.compile(nn.MaxPool2d(2)))).check()


class Named(OrderedDict):  # type: ignore[type-arg]
    """As the results of other packages are."""


class Entries(list):  # type: ignore[type-arg]
    """A sequence of its own class."""


@dataclass
class Fields:
    first: Any
    second: Any


Pair = namedtuple("Pair", "one other")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda y: Named(out=y, aux=y), ["out", "aux"]),
        (lambda y: UserDict(out=[y, Named(inner=y)]), ["out.0", "out.1.inner"]),
        (lambda y: Entries([y, Fields(y, Pair(y, {1: y}))]), ["0", "1.first", "1.second.one", "1.second.other.1"]),
    ],
)
def test_results_of_any_class(result: Callable[[Tensor], Any], expected: list[str]) -> None:
    assert list(export_forward(Of(result), (X,)).outputs) == [f"output.{path}" for path in expected]


def test_a_model_without_tensors() -> None:
    with pytest.raises(ValueError, match="the model returns no tensor"):
        export_forward(Of(lambda _: 3), (X,))


class Forces(nn.Module):
    """The gradient of an energy is a part of the result."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 1)
        )

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = x.detach().clone().requires_grad_()
        energy = self.body(x)
        (gradient,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return {"energy": energy, "force": -gradient}


def test_a_gradient_in_the_forward_pass() -> None:
    net = Forces()
    with torch.no_grad():
        forward = export_forward(net, (X,))
    session = onnxruntime.InferenceSession(forward.model.SerializeToString())
    found = session.run(["output.force"], {**forward.values, **forward.examples})[0]
    np.testing.assert_allclose(found, net(X)["force"].detach().numpy(), atol=1e-5)  # sums in another order


def test_types_without_kernels_and_batches_of_another_size() -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.MaxPool2d(2))
    with torch.autocast("cpu", torch.bfloat16):
        short = export(net)
    with pytest.raises(
        SessionError, match=r"Could not find an implementation.*; the element type bfloat16 is the reason"
    ):
        create_session(lower(short.model))
    loss, target = lambda output, _: output.pow(2).mean(), torch.zeros(1, dtype=torch.float64)
    double = export_training_step(net.double(), loss, (X.double(), target))
    with pytest.raises(SessionError, match="the element type float64 is the reason: compute in float32"):
        double.check()
    step = export(net.float())
    loop = TrainingLoop(create_session(lower(step.model)), step)
    with pytest.raises(
        ValueError, match=r"input of shape \(2, 3, 4, 4\); \(4, 3, 4, 4\) is given; .*dynamic_batch=True"
    ):
        loop.step(input=torch.cat([X, X]), target=torch.zeros(1), learning_rate=0.1)
    with pytest.raises(ValueError, match=r"\(2, 3, 4, 5\) is given$"):
        loop.step(input=torch.zeros(2, 3, 4, 5), target=torch.zeros(1), learning_rate=0.1)


def test_a_symbolic_number_of_groups() -> None:
    """As of a convolution whose kernel each element of the batch modulates."""
    net = Of(lambda y: torch.conv2d(y.flatten(0, 1)[None], torch.ones(len(y), 3, 1, 1) * y.mean(), groups=len(y)))
    with pytest.raises(TorchExportError, match=r"in <lambda> \(test_messages\.py.*the number of groups, is a symbolic"):
        export_training_step(net, lambda output, _: output.pow(2).mean(), (X, X), dynamic_batch=True)
