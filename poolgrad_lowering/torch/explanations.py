# SPDX-License-Identifier: Apache-2.0

"""What an exception of torch is about, as one sentence for whoever has the model."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

import numpy as np
import torch
from torch import fx

from poolgrad_lowering.torch.errors import NumbersDecideError, TorchExportError
from poolgrad_lowering.torch.internals.graphs import annotation

PLACE = "poolgrad_place"
"""The note of a traced operator that says where the model calls it."""

_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADING = re.compile(r"(?:^|[.;])[^.;]*:$")  # what announces lines that are not quoted

_INSIDE = Path(inspect.getfile(torch)).parent
_LAYERS = _INSIDE / "nn"
_OF_FUNCTIONS = _INSIDE / "_higher_order_ops"
_OPERATORS_OF_FUNCTIONS = ("cond", "map", "scan", "while_loop")
_CALL = _LAYERS / "modules" / "module.py"
_OWN = Path(__file__).parents[1]
_STANDARD = Path(inspect.getfile(inspect)).parent
_NO_MODELS = (_INSIDE, _OWN, Path(inspect.getfile(np)).parent)
_MADE = ("<string>", "<eval_with_key>")
"""The files of code that torch writes for a graph."""


_INSTEAD = {
    "fractional_max_pool": "use a MaxPool or an AdaptiveMaxPool, or draw the windows outside of the step",
    "grid_sampler": "use torch.nn.functional.grid_sample",
    "_embedding_bag": "leave out max_norm and scale_grad_by_freq",
    "aten.mode": "compute it outside of the step",
    "_linalg_eigh": "compute the decomposition outside of the step, and give its result as an input",
    "_linalg_svd": "compute the decomposition outside of the step, or use power iterations, as spectral_norm does",
    "linalg_qr": "compute the decomposition outside of the step, or use torch.linalg.householder_product",
    "_linalg_solve_ex": "use torch.linalg.solve",
    "linalg_inv_ex": "use torch.linalg.inv",
    "_fake_quantize_learnable": "multiply by a scale, and round with x + (x.round() - x).detach()",
}
"""What a model can have in place of operators, by parts of their names."""


def untranslated(operator: object, place: str | None) -> str:
    """Return the sentence on an operator that torch does not translate, with what to do if something is known.

    `place` is where the model calls it, or that whose gradient it is.
    """
    advice = next((f": {text}" for name, text in _INSTEAD.items() if name in str(operator)), "")
    return f"torch has no translation to ONNX of the operator {operator}{_where(place)}{advice}"


def _where(place: str | None) -> str:
    return "" if place is None else f", in {place}"


def sentence(error: BaseException) -> str:
    """Return the first line of a message, without codes for terminals and without the heading of a list.

    torch goes on with advice to those who develop it.
    """
    lines = (_TERMINAL.sub("", line).strip() for line in str(error).splitlines())
    first = next(filter(None, lines), type(error).__name__)
    return _HEADING.sub("", first).strip() or first.rstrip(":")


@contextmanager
def explained(failed: str) -> Iterator[None]:
    """Convert an exception of torch into a `TorchExportError` with its `explanation`."""
    try:
        yield
    except TorchExportError:
        raise
    except Exception as error:
        raise TorchExportError(explanation(error, failed)) from error


def explanation(error: BaseException, failed: str) -> str:
    """Return what an error of torch is about. `failed` says what torch cannot do, for a cause that is not known."""
    causes = list(_chain(error))
    if (decided := next((cause for cause in causes if isinstance(cause, NumbersDecideError)), None)) is not None:
        place, asking = decided.place, _place(causes)
        if asking and asking != place:
            place = asking if place == NO_PLACE else f"{place}, which {asking} needs"
        return _NUMBERS_DECIDE.format(by=f"by {decided} ", place=place)
    if (operator := _of_functions(causes)) is not None:
        return (
            f"the model calls {operator}, an operator of functions, which no step has: write this part with "
            "torch.where, or with a loop of Python"
        )
    for message, text in _KNOWN.items():
        for cause in causes:
            if found := re.search(message, _TERMINAL.sub("", str(cause))):
                noted = _noted_place(causes)
                known = {"by": "", "place": _place(causes) or noted or NO_PLACE, "where": _where(noted)}
                known["untranslated"] = untranslated(".".join(found.groups()), noted)
                return text.format(*found.groups(), last=sentence(causes[-1]), **known)
    in_model = any(Path(frame.filename) == _CALL for frame in _frames(causes))
    where = f", in {_place(causes) or NO_PLACE}" if in_model else ""
    return f"{failed}{where}: {sentence(causes[-1])}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _frames(causes: list[BaseException]) -> list[traceback.FrameSummary]:
    """Return what was running, from the outermost call to the innermost."""
    return [frame for cause in causes for frame in traceback.extract_tb(cause.__traceback__)]


_NUMBERS_DECIDE = (
    "the way that the computation takes, or one of its sizes, depends on the numbers in a tensor, {by}in {place}: a "
    "graph is the same for all numbers. Write this part without `if`, `float()` and `.item()` of a tensor, e.g. with "
    "torch.where; a tensor that is the same in all steps, such as the sizes of images, may be a buffer of the model"
)
SPARSE = (
    "the model makes a sparse tensor, in {place}, which no graph has: make a dense one of its numbers, by "
    "torch.zeros(…).index_put(…), and multiply by that"
)
"""The sentence on what a graph has no operators for."""
OF_TRANSFORMS = (
    "Within transforms of torch.func, such as vmap, PyTorch makes numbers of the sizes of many operators: write a vmap "
    "over few models as torch.stack of a loop over them, or leave the symbolic size out"
)
"""The advice on a size that is a number there."""

_KNOWN = {
    r"Cannot call sizes\(\) on tensor with symbolic sizes": (
        "an operator of PyTorch takes no symbolic size, in {place}. " + OF_TRANSFORMS
    ),
    r"SparseTensorImpl|SparseCsr|aten\._to_sparse|aten\._sparse": SPARSE,
    r"OpOverload\(op='([^']+)', overload='([^']+)'\)": "{untranslated}",
    r"Unsupported attribute type: .*SymbolicTensor": (
        "an attribute of a node{where}, such as the number of groups, is a symbolic size, and ONNX takes a number: "
        "give this size as a number"
    ),
    r"Error when translating node .*target=torch\.ops\.([\w.]+)\]": (
        "torch's translation to ONNX of the operator {0} fails{where}: {last}"
    ),
    r"'lengths' argument|failed to unpack .* got FakeTensor": (
        "a sequence is packed by the numbers in a tensor, its lengths, in {place}: a graph is the same for all "
        "numbers. Give the layer the padded sequences: in a layer of one direction, the padding changes no output of a "
        "sequence. Take the last outputs with gather, and leave those of the padding out of the loss with torch.where"
    ),
    r"data-dependent|_local_scalar_dense|unbacked symbols": _NUMBERS_DECIDE,
    r"unhashable type: non-nested SymInt": (
        "a symbolic size is a key of a dictionary or of functools.lru_cache, in {place}: only numbers are. Write this "
        "part without a cache by sizes, e.g. by the `__wrapped__` of the function"
    ),
    r"does not require grad and does not have a grad_fn": (
        "a gradient is computed in {place} of what does not depend on a tensor with requires_grad: give the tensor "
        "requires_grad in the model's forward"
    ),
}
"""What messages of torch look like, and the sentence for each."""


def _of_functions(causes: list[BaseException]) -> str | None:
    """Return the operator of functions, such as torch.cond, in which an exception was raised, or None."""
    paths = [Path(frame.filename) for frame in _frames(causes)]
    names = (path.stem for path in paths if path.parent == _OF_FUNCTIONS)
    return next((f"torch's {name}" for name in names if name in _OPERATORS_OF_FUNCTIONS), None)


NO_PLACE = "the model"


def _place(causes: list[BaseException]) -> str:
    """Return the innermost function of the model that was running, or else of a layer of torch; nothing without one."""
    frames = _frames(causes)[::-1]
    of_layers = [each for each in frames if (file := Path(each.filename)).is_relative_to(_LAYERS) and file != _CALL]
    found = [*(each for each in frames if is_file_of_a_model(each.filename)), *of_layers]
    return function_of(found[0]) if found else ""


def _noted_place(causes: list[BaseException]) -> str | None:
    """Return the place that is noted with the node of a graph which torch was translating, or None."""
    frames = (frame for cause in causes for frame, _ in traceback.walk_tb(cause.__traceback__))
    nodes = (node for frame in frames if isinstance(node := frame.f_locals.get("node"), fx.Node))
    return next((annotation(node).get(PLACE) for node in nodes), None)


def running_place(outermost: CodeType) -> str | None:
    """Return the innermost function of the model that runs now, inside of the function with this code, or None."""
    frame = sys._getframe()  # noqa: SLF001 - traceback reads the sources
    while frame.f_back is not None and frame.f_code is not outermost:
        if is_file_of_a_model(frame.f_code.co_filename):
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            return function_of(traceback.FrameSummary(file, frame.f_lineno, name, lookup_line=False))
        frame = frame.f_back
    return None


@functools.cache
def is_file_of_a_model(file: str) -> bool:
    """Whether a file is of neither torch, numpy, Python nor this package, nor code that torch writes for a graph."""
    path = Path(file)
    if file.startswith(_MADE) or path.suffix == ".pyx" or any(map(path.is_relative_to, _NO_MODELS)):
        return False
    return not path.is_relative_to(_STANDARD) or path.relative_to(_STANDARD).parts[0] == "site-packages"


def is_own(filename: str) -> bool:
    """Whether a file is one of this package."""
    return Path(filename).is_relative_to(_OWN)


def function_of(frame: traceback.FrameSummary) -> str:
    """Return the function that a frame runs, with file and line."""
    return f"{frame.name} ({Path(frame.filename).name}, line {frame.lineno})"
