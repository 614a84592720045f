# SPDX-License-Identifier: Apache-2.0

"""Fourier transforms as products with constant matrices, and complex numbers as two tensors: ONNX has none.

A model computes what it trains in real numbers: the absolute values of a spectrum, or a signal transformed back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.internals.recorded import of_constants
from poolgrad_lowering.torch.internals.trees import bound


class Complex:
    """A complex tensor: its real and its imaginary part. Functions of torch take it by `compute`."""

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        self.real, self.imag = real, imag
        self.shape, self.ndim, self.dtype, self.device = real.shape, real.ndim, torch.complex64, real.device

    @classmethod
    def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(function.__name__, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if not callable(getattr(Tensor, name, None)):
            raise AttributeError(name)  # noqa: TRY004 - as of any object
        return partial(compute, name, self)

    def __getitem__(self, places: Any) -> Complex:
        return Complex(self.real[places], self.imag[places])

    def __setitem__(self, places: Any, value: Any) -> None:
        self.real[places], self.imag[places] = _parts(value)

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)

    def __add__(self, other: Any) -> Complex:
        real, imag = _parts(other)
        return Complex(self.real + real, self.imag + imag)

    def __sub__(self, other: Any) -> Complex:
        return self + -other

    def __rsub__(self, other: Any) -> Complex:
        return -self + other

    def __mul__(self, other: Any) -> Complex:
        if not _is_complex(other):
            return Complex(self.real * other, self.imag * other)
        real, imag = _parts(other)
        return Complex(self.real * real - self.imag * imag, self.real * imag + self.imag * real)

    def __truediv__(self, other: Any) -> Complex:
        if not _is_complex(other):
            return Complex(self.real / other, self.imag / other)
        real, imag = _parts(other)
        return self * Complex(torch.as_tensor(real), torch.as_tensor(-imag)) / (real * real + imag * imag)

    def __rtruediv__(self, other: Any) -> Complex:
        return Complex(self.real, -self.imag) * other / (self.real * self.real + self.imag * self.imag)

    def __matmul__(self, other: Any) -> Complex:
        return _bilinear(torch.matmul, self, other)

    def __abs__(self) -> Tensor:
        return _abs(self)

    __radd__, __rmul__ = __add__, __mul__


def _is_complex(value: Any) -> bool:
    return isinstance(value, (Complex, complex)) or (isinstance(value, Tensor) and value.is_complex())


def _parts(value: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part. Raises `TorchExportError` for complex tensors that are no constants."""
    if isinstance(value, Tensor) and value.is_complex():
        pairs = of_constants(lambda known: torch.view_as_real(known.resolve_conj()), value)
        return _real(value) if pairs is NotImplemented else pairs.unbind(-1)
    return (value.real, value.imag) if isinstance(value, (Complex, complex)) else (value, 0)


def _abs(x: Complex) -> Tensor:
    """Return the absolute values, of which that of 0 has the gradient 0, as in PyTorch."""
    squares = x.real * x.real + x.imag * x.imag
    return torch.where(squares == 0, 0, torch.where(squares == 0, 1, squares).sqrt())


def _bilinear(product: Callable[[Any, Any], Tensor], one: Any, other: Any) -> Complex:
    """Return the product of two tensors, of which one is complex."""
    (a, b), (c, d) = (_parts(x) if _is_complex(x) else (x, torch.zeros_like(x)) for x in (one, other))
    return Complex(product(a, c) - product(b, d), product(a, d) + product(b, c))


def _of_two(name: str, one: Any, other: Any) -> Complex:
    """Return what an operator of Python gives of two numbers, of which one is complex."""
    found: Complex = (
        getattr(one, f"__{name}__")(other) if isinstance(one, Complex) else getattr(other, f"__r{name}__")(one)
    )
    return found


def _beside(function: Any, x: Any, other: Any, **options: Any) -> Any:
    """Return what a function of torch gives of a tensor and another one, or a number, which may be a complex one."""
    if not isinstance(other, complex):
        return function(x, other, **options)
    return compute(function.__name__, x, Complex(torch.tensor(other.real), torch.tensor(other.imag)))


def _zeros(*sizes: Any, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Return zeros, which may be complex."""
    if dtype is None or not dtype.is_complex:
        return torch.zeros(*sizes, dtype=dtype, **options)
    return Complex(torch.zeros(*sizes, **options), torch.zeros(*sizes, **options))


def _to(x: Complex, *arguments: Any, **options: Any) -> Complex:
    """Return x, which is on the CPU and in complex64. Raises `TorchExportError` for real numbers."""
    if any(isinstance(each, torch.dtype) and not each.is_complex for each in (*arguments, *options.values())):
        raise TorchExportError("the model makes real numbers of complex ones by `to`: take their `real`")
    return x


def _pad(x: Complex, pad: Any, mode: str = "constant", value: Any = None) -> Complex:
    """Return x padded; the numbers that it is padded with are real."""
    padded = (functional.pad(part, pad, mode, number) for part, number in ((x.real, value), (x.imag, value and 0)))
    return Complex(*padded)


def _powers(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of 2π·j·k/n for j below the size n and k below a count."""
    turns = 2 * np.pi * (np.outer(np.arange(size), np.arange(count)) % size) / size
    return np.cos(turns), np.where(np.isin(turns, (0, np.pi)), 0, np.sin(turns))


def _times(x: Tensor, matrix: np.ndarray) -> Tensor:
    return x @ torch.tensor(matrix.tolist(), dtype=x.dtype)


def _scale(norm: str | None, size: int, *, is_inverse: bool) -> float:
    if norm == "ortho":
        return float(size**-0.5)
    return 1 / size if (norm == "forward") is not is_inverse else 1.0


def _of_size(x: Any, size: int, axis: int) -> Any:
    """Return x with a size along an axis, which is cut or filled with zeros, as its last axis."""
    if isinstance(x, Complex):
        return Complex(_of_size(x.real, size, axis), _of_size(x.imag, size, axis))
    x = x.movedim(axis, -1)
    return x[..., :size] if size <= x.shape[-1] else functional.pad(x, (0, size - x.shape[-1]))


def _real(x: Any) -> Any:
    """Return x in floating point. Raises `TorchExportError` for complex numbers of torch."""
    if isinstance(x, Complex):
        return x
    if x.is_complex():
        raise TorchExportError(
            "the model computes with complex numbers that it makes or has: hold them as two real tensors"
        )
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def transform(
    input: Any,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    one_sided: bool = False,
    is_inverse: bool = False,
) -> Complex:
    """Return the discrete Fourier transform along an axis, of which half if it is `one_sided`, or its inverse."""
    x = _real(input)
    size = x.shape[dim] if n is None else n
    x = _of_size(x, size, dim)
    cosines, sines = (
        each * _scale(norm, size, is_inverse=is_inverse) for each in _powers(size, size // 2 + 1 if one_sided else size)
    )
    sines = sines if is_inverse else 0 - sines  # no -0, of which an angle depends
    if isinstance(x, Complex):
        real = _times(x.real, cosines) - _times(x.imag, sines)
        imag = _times(x.real, sines) + _times(x.imag, cosines)
    else:
        real, imag = _times(x, cosines), _times(x, sines)
    return Complex(real.movedim(-1, dim), imag.movedim(-1, dim))


def to_signal(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the real signal of which a spectrum is the half: torch.fft.irfft."""
    x = _real(input)
    size = 2 * (x.shape[dim] - 1) if n is None else n
    half = size // 2 + 1
    x = _of_size(x, half, dim)
    factors = np.array([1 if at in (0, size / 2) else 2 for at in range(half)])[:, None]
    cosines, sines = (each.T * factors * _scale(norm, size, is_inverse=True) for each in _powers(size, half))
    found = _times(x.real, cosines) - _times(x.imag, sines) if isinstance(x, Complex) else _times(x, cosines)
    return found.movedim(-1, dim)


def _along_axes(last: Any, other: Any, axes: Any, input: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
    """Return a transform along axes, by default the last ones that are given or all; the last one is by `last`.

    That is computed first, but the one to a real signal behind all others.
    """
    dim = axes if dim is None else dim
    own = list(range(-len(s) if s else -input.ndim, 0)) if dim is None else [dim] if isinstance(dim, int) else dim
    sizes = [None if size == -1 else size for size in s] if s else [None] * len(own)
    pairs = [*zip(sizes, own, strict=True)]
    found = input
    for pair in pairs if last is to_signal else pairs[::-1]:
        found = (last if pair is pairs[-1] else other)(found, *pair, norm)
    return found


def stft(*arguments: Any, **named: Any) -> Any:
    """Return the Fourier transforms of the frames of signals, (batch, frequencies, frames)."""
    given = bound(torch.stft, arguments, named)
    x, n_fft, hop, length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window = given
    if align_to_window:
        raise TorchExportError("the model calls torch.stft with align_to_window, which no step has: cut the signal")
    own = _whole_window(window, n_fft, length or n_fft, x)
    rows = x.reshape(-1, 1, x.shape[-1])
    rows = functional.pad(rows, (n_fft // 2, n_fft // 2), mode=pad_mode) if center else rows
    frames = rows.squeeze(1).unfold(-1, n_fft, hop or n_fft // 4) * own
    norm = "ortho" if normalized else None
    found = transform(frames, norm=norm, one_sided=onesided is not False).transpose(1, 2)
    found = found if x.ndim > 1 else found.squeeze(0)
    return found if return_complex else torch.view_as_real(found)


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signals whose frames have these transforms: the sums of windowed frames, by those of their windows."""
    if return_complex:
        raise TorchExportError("the model calls torch.istft with return_complex, which no step has: make real signals")
    spectra = _real(input)
    if spectra.ndim == 2:
        of_one = istft(spectra[None], n_fft, hop_length, win_length, window, center, normalized, onesided, length)
        return of_one.squeeze(0)
    hop = hop_length or n_fft // 4
    own = _whole_window(window, n_fft, win_length or n_fft, spectra.real)
    norm, last = "ortho" if normalized else None, spectra.transpose(1, 2)
    frames = (
        to_signal(last, n_fft, -1, norm) if onesided is not False else transform(last, norm=norm, is_inverse=True).real
    )
    count = frames.shape[1]
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length

    def added(frames: Tensor) -> Tensor:
        total: Tensor = torch.ops.aten.unfold_backward(frames, [frames.shape[0], whole], 1, n_fft, hop)
        return total[:, start : min(end, whole)]

    found = added(frames * own) / added((own * own).expand(1, count, n_fft))
    return functional.pad(found, (0, end - whole)) if end > whole else found


def _whole_window(window: Tensor | None, n_fft: int, length: int, like: Tensor) -> Tensor:
    """Return the window of a frame, with zeros on both sides of one that is shorter."""
    own = torch.ones(length, dtype=like.dtype) if window is None else window
    before = (n_fft - length) // 2
    return functional.pad(own, (before, n_fft - length - before))


_OF_PARTS = frozenset(
    """
    __getitem__ cat chunk clone contiguous detach expand flatten flip index_select mean movedim narrow permute repeat
    reshape roll squeeze stack sum swapaxes t transpose unflatten unsqueeze view zeros_like
    """.split()  # noqa: SIM905 - as a list it has many lines
)
"""Functions of each part."""

_OF_COMPLEX: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("abs", "absolute"), _abs),
    "angle": lambda x: torch.atan2(x.imag, x.real),
    **dict.fromkeys(("conj", "conj_physical"), lambda x: Complex(x.real, -x.imag)),
    **dict.fromkeys(("resolve_conj", "resolve_neg"), lambda x: x),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "view_as_real": lambda x: torch.stack([x.real, x.imag], -1),
    "is_complex": lambda _: True,
    "to": _to,
    "pad": _pad,
    "size": lambda x, *axis: x.real.size(*axis),
    "dim": lambda x: x.ndim,
    **dict.fromkeys(("neg", "negative"), lambda x: -x),
    "exp": lambda x: Complex(x.real.exp() * x.imag.cos(), x.real.exp() * x.imag.sin()),
    "add": partial(_of_two, "add"),
    **dict.fromkeys(("sub", "subtract"), partial(_of_two, "sub")),
    **dict.fromkeys(("mul", "multiply"), partial(_of_two, "mul")),
    **dict.fromkeys(("div", "divide", "true_divide"), partial(_of_two, "truediv")),
    **dict.fromkeys(("matmul", "bmm"), partial(_bilinear, torch.matmul)),
    "einsum": lambda equation, one, other: _bilinear(partial(torch.einsum, equation), one, other),
    "istft": istft,
}
"""The functions of complex numbers by the name in torch."""


def compute(name: str, *arguments: Any, **options: Any) -> Any:
    """Return what a function of torch returns. Raises `TorchExportError` if there is none of complex numbers here."""
    if name in _OF_COMPLEX:
        return _OF_COMPLEX[name](*arguments, **options)
    if name not in _OF_PARTS:
        raise TorchExportError(
            f"the model computes `{name}` of complex numbers, which no operator of ONNX takes: steps have their sums, "
            "products, abs, angle, real, imag and Fourier transforms"
        )
    first, *others = arguments
    each = first if isinstance(first, (list, tuple)) else [first]
    halves = ([_parts(value)[half] for value in each] for half in (0, 1))
    function = getattr(torch, name, None) or getattr(Tensor, name)
    real, imag = (
        function(half if isinstance(first, (list, tuple)) else half[0], *others, **options) for half in halves
    )
    return Complex(real, imag) if isinstance(real, Tensor) else tuple(map(Complex, real, imag))


_half, _back = partial(transform, one_sided=True), partial(transform, is_inverse=True)
SPECTRA: dict[Any, Callable[..., Any]] = {
    **{function: partial(_beside, function) for function in (Tensor.add, Tensor.mul, Tensor.sub)},
    torch.zeros: _zeros,
    torch.complex: lambda real, imag: Complex(*torch.broadcast_tensors(real, imag)),
    torch.polar: lambda size, angle: Complex(size * angle.cos(), size * angle.sin()),
    torch.view_as_complex: lambda x: Complex(x[..., 0], x[..., 1]),
    **dict.fromkeys((torch.stft, Tensor.stft), stft),
    torch.istft: istft,
    torch.fft.fft: transform,
    torch.fft.ifft: _back,
    torch.fft.rfft: _half,
    torch.fft.irfft: to_signal,
    torch.fft.fft2: partial(_along_axes, transform, transform, (-2, -1)),
    torch.fft.ifft2: partial(_along_axes, _back, _back, (-2, -1)),
    torch.fft.rfft2: partial(_along_axes, _half, transform, (-2, -1)),
    torch.fft.irfft2: partial(_along_axes, to_signal, _back, (-2, -1)),
    torch.fft.fftn: partial(_along_axes, transform, transform, None),
    torch.fft.ifftn: partial(_along_axes, _back, _back, None),
    torch.fft.rfftn: partial(_along_axes, _half, transform, None),
    torch.fft.irfftn: partial(_along_axes, to_signal, _back, None),
}
"""The functions by those of torch that they compute."""
