# SPDX-License-Identifier: Apache-2.0

"""Fourier transforms and what models do with complex numbers, as training steps beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import export_cann
from poolgrad_lowering.torch import TorchExportError, export_training_step

X = torch.randn(2, 48, generator=torch.Generator().manual_seed(0))
WINDOW = torch.hann_window(12)


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self._function = nn.Parameter(torch.rand(48) + 0.5), function

    def forward(self, x: Tensor) -> Tensor:
        return (self._function(x * self.weight) ** 2).mean()


def turned(x: Tensor) -> Tensor:
    """Rotary positions, as they are often written."""
    pairs = torch.view_as_complex(x.view(2, 8, 3, 2))
    turns = torch.polar(torch.ones(8, 3), torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1, 0.01])))
    return torch.view_as_real(pairs * turns.to(pairs.device)).flatten(2)


def written(x: Tensor) -> Tensor:
    spectra = torch.fft.rfft(x)
    found = torch.zeros(2, 25, dtype=torch.cfloat)
    found[:, 3:8], found[0, 9] = spectra[:, :5] * x[:, :5], 2.0
    return torch.fft.irfft(found)


def operator(x: Tensor) -> Tensor:
    """A layer of a Fourier neural operator, with products of complex matrices."""
    modes = torch.fft.rfft2(x.view(2, 2, 4, 6), norm="ortho")[..., :3]
    weights = torch.complex(x[0, :8].view(2, 2, 2), x[1, :8].view(2, 2, 2))
    mixed = torch.einsum("bixy,iox->boxy", modes[:, :, :2], weights)
    return torch.fft.irfft2(torch.cat([mixed, -mixed], 2), s=(4, 6))


def signals(x: Tensor, of: Any = lambda spectra: spectra, *, length: int | None = None, **options: Any) -> Tensor:
    """The signals of what a function gives of spectra."""
    given: Any = {"hop_length": 2, "window": WINDOW[:8] + 0.5, **options}
    return torch.istft(of(torch.stft(x, 8, return_complex=True, **given)), 8, length=length, **given)


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "as methods": lambda x: x.stft(8, window=WINDOW[:8] + 0.5, return_complex=True).istft(8, window=WINDOW[:8] + 0.5),
    "magnitudes": lambda x: torch.stft(x, 16, 4, 12, WINDOW, return_complex=True).abs(),
    "a row": lambda x: torch.stft(x[0], 16, window=torch.ones(16), return_complex=True, normalized=True).abs().log1p(),
    "pairs": lambda x: torch.stft(x, 8, 3, center=False, onesided=False, return_complex=False),
    "half": lambda x: torch.fft.rfft(x, 60, norm="forward").abs(),
    "angles": lambda x: torch.angle(torch.fft.rfft(x)),
    "no number": lambda x: abs(torch.fft.fft(x * 0 + x.detach() * 0)),
    "signals": lambda x: signals(x, lambda spectra: spectra * 0.5),
    "a signal that is cut": lambda x: signals(x[0], length=40),
    "longer signals": lambda x: signals(x, lambda spectra: nn.functional.pad(spectra, (1, 2)), length=70),
    "signals of frames inside": lambda x: signals(x, center=False, onesided=False, normalized=True),
    "signals of short windows": lambda x: signals(x, window=WINDOW[:6] + 0.5, win_length=6),
    "padded spectra": lambda x: nn.functional.pad(torch.fft.rfft(x), (1, 2), value=0.5).imag,
    "both axes": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=0).real,
    "planes": lambda x: torch.view_as_real(torch.fft.fft2(x.view(2, 6, 8), norm="ortho")),
    "there and back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x.view(2, 6, 8))[..., :4], s=(7, 7), norm="backward"),
    "all axes": lambda x: (
        torch.fft.irfftn(torch.fft.rfftn(x.view(2, 4, 3, 4))) + torch.fft.ifftn(x.view(2, 4, 3, 4)).imag
    ),
    "a long convolution": lambda x: torch.fft.irfft(torch.fft.rfft(x, 96) * torch.fft.rfft(x[0], 96), 96),
    "a correlation": lambda x: torch.fft.ifft(torch.fft.fft(x).conj() * torch.fft.fft(x[:1] + 1) / (2 + 1j)).real,
    "a quotient": lambda x: (torch.fft.rfft(x) / (torch.fft.rfft(x.flip(0)) + 40)).sum(-1).imag,
    "real numbers first": lambda x: (
        2 * x[:, :25] * torch.fft.rfft(x) - x[:, :25] / (x[:, :25].square() + torch.fft.rfft(x) + 40)
    ).abs(),
    "exponents": lambda x: ((1j * x + 0.5) / 9).exp().imag + (x - torch.exp(2 - 1j * x)).real,
    "written spectra": written,
    "positions": turned,
    "an operator": operator,
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step(name: str) -> None:
    step = export_training_step(Net(STEPS[name]), None, (X,), optimizer="sgd")
    step.check(steps=3)
    assert not export_cann(step.model).report.obstacles


def test_a_symbolic_batch() -> None:
    export_training_step(Net(STEPS["magnitudes"]), None, (X,), dynamic_batch=True).check()


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "a function": (
        lambda x: torch.fft.rfft(x).log().abs(),
        "computes `log` of complex numbers.*: steps have their sums",
    ),
    "a constant": (
        lambda x: torch.fft.ifft(x + torch.ones(48, dtype=torch.cfloat)).real,
        "hold them as two real tens",
    ),
    "a complex factor": (
        lambda x: (torch.fft.rfft(x) * x[0, :25].to(torch.cfloat)).abs(),
        "complex numbers.*: make them of real tensors|hold them as two real tens",
    ),
    "a window": (
        lambda x: torch.stft(x, 8, align_to_window=True, center=False, return_complex=True).abs(),
        "align_to_",
    ),
    "complex signals": (
        lambda x: torch.istft(torch.stft(x, 8, return_complex=True, onesided=False), 8, return_complex=True).real,
        "torch.istft with return_complex",
    ),
    "a real type": (lambda x: torch.fft.rfft(x).to(torch.float32), "take their `real`"),
    "a type": (lambda x: x.to(torch.cfloat).abs(), "complex numbers.*: make them of real tensors"),
}


@pytest.mark.parametrize(("function", "said"), REFUSED.values(), ids=REFUSED)
def test_other_complex_numbers_are_refused(function: Callable[[Tensor], Tensor], said: str) -> None:
    with pytest.raises(TorchExportError, match=said):
        export_training_step(Net(function), None, (X,))


class Turned(Net):
    """Its positions are complex numbers of torch, some a buffer, some not."""

    def __init__(self) -> None:
        super().__init__(self.turned)
        self.register_buffer("turns", torch.polar(torch.ones(2, 24), torch.arange(48.0).view(2, 24)), persistent=False)
        self.scale = torch.tensor([[1j], [2 - 1j]])

    def turned(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.view(2, 24, 2))
        return torch.view_as_real(pairs * self.get_buffer("turns")[:, :24].conj() + self.scale.view(2, 1))


def test_complex_constants_of_a_model() -> None:
    step = export_training_step(Turned(), None, (X,), optimizer="sgd")
    step.check(steps=2)
    assert "buffer.turns" not in step.inputs
    assert not export_cann(step.model).report.obstacles


def test_a_complex_weight_is_named() -> None:
    net = Net(lambda x: x)
    net.filter = nn.Parameter(torch.ones(3, dtype=torch.cfloat))
    with pytest.raises(TorchExportError, match=r"'weight.filter' has complex numbers"):
        export_training_step(net, None, (X,))
