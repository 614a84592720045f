# SPDX-License-Identifier: Apache-2.0

"""`poolgrad export-torch`: exports the training step of a PyTorch model that a function of a Python file returns."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.entry.cli.arguments import Command, argument, flag
from poolgrad_lowering.entry.cli.console import print_error, print_line
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.model.diagnostics.errors import PoolgradError, UsageError
from poolgrad_lowering.model.io.atomic_write import require_folder, write_bytes

if TYPE_CHECKING:
    from poolgrad_lowering.torch import TrainingStep


_OPTIMIZERS = ("adadelta", "adagrad", "adam", "adamax", "adamw", "lion", "nadam", "radam", "rmsprop", "sgd")
_SHAPES = '{"x": {"2": "height", "3": "16*width"}}'


def _export(options: argparse.Namespace) -> ExitCode:
    file, name = _file_and_name(options.source)
    require_folder(options.output)
    shapes = _shapes(options.dynamic_shapes)
    from poolgrad_lowering.torch import export_training_step  # noqa: PLC0415 - `--help` must not load onnx

    model, loss, examples = _call(file, name)
    given = {name: getattr(options, name) for name in ("optimizer", "dynamic_batch", "opset", "weights")}
    try:
        step = export_training_step(model, loss, examples, dynamic_shapes=shapes, **given)
    except (TypeError, ValueError) as error:  # of the arguments; what torch raises is a TorchExportError
        raise UsageError(f"{name} of '{file}': {error}") from error
    if options.check and (failed := _differs(step)) is not None:
        return failed
    write_bytes(options.output, step.model.SerializeToString())
    if options.json:
        print(json.dumps({"inputs": step.inputs, "outputs": step.outputs}, indent=1))
    elif not options.quiet:
        compared = "as eager PyTorch computes it" if options.check else "not compared with eager PyTorch"
        print_line(f"wrote {options.output}: {len(step.inputs)} inputs, {len(step.outputs)} outputs, {compared}")
    return ExitCode.DONE


def _differs(step: TrainingStep) -> ExitCode | None:
    """Compare a step with eager PyTorch. Print what is wrong, and return the exit code; None if nothing is."""
    from poolgrad_lowering.torch import StepMismatchError  # noqa: PLC0415 - `--help` must not load onnx

    try:
        step.check()
    except PoolgradError as error:
        print_error(f"check: {error}; no model written. --no-check leaves the comparison out")
        return ExitCode.FAILED if isinstance(error, StepMismatchError) else ExitCode.BAD_INPUT
    return None


def _shapes(text: str | None) -> dict[str, dict[int, str]] | None:
    """Return the shapes of `--dynamic-shapes`, with axes as numbers. Raises `UsageError` unless it has that form."""
    try:
        found = None if text is None else json.loads(text)
        return found and {name: {int(axis): size for axis, size in of.items()} for name, of in found.items()}
    except (ValueError, AttributeError) as error:
        raise UsageError(f"--dynamic-shapes is no JSON of the form {_SHAPES}: {error}") from error


def _file_and_name(source: str) -> tuple[str, str]:
    """Return FILE and CALLABLE. Raises `UsageError` if there is no such file."""
    file, colon, name = source.rpartition(":")
    if not (colon and file and name):
        raise UsageError(f"'{source}' is not FILE:CALLABLE with a Python file")
    if not Path(file).is_file():
        raise UsageError(f"'{file}' is not a file" if Path(file).exists() else f"the file '{file}' does not exist")
    return file, name


def _call(file: str, name: str) -> tuple[Any, Any, Any]:
    """Return model, loss and example inputs of a function. Raises `UsageError` if there is none, or an error in it."""
    sys.path.insert(0, str(Path(file).parent))  # as if Python ran the file
    function = _of_user(lambda: runpy.run_path(file), f"'{file}'").get(name)
    if not callable(function):
        raise UsageError(f"'{file}' has no function '{name}'")
    found = _of_user(function, f"{name} of '{file}'")
    if not isinstance(found, tuple) or len(found) != 3:
        raise UsageError(f"{name} of '{file}' does not return a model, a loss and example inputs")
    return found


def _of_user(call: Callable[[], Any], what: str) -> Any:
    """Return what a user's code returns. Raises `UsageError` if it raises an error."""
    try:
        return call()
    except Exception as error:
        raise UsageError(f"{what} raises {type(error).__name__}: {error}") from error


COMMANDS = {
    "export-torch": Command(
        help="export a training step of a PyTorch model as ONNX",
        description="Run a Python file, call one of its functions, which returns a model, a loss and example inputs "
        "(the arguments of the model's forward, and the target as the last one), and export the training step. A loss "
        "of None means that the model computes it. Before it is written, the step is compared with "
        "eager PyTorch. Needs PyTorch and onnxruntime.",
        examples=(
            ("poolgrad export-torch train.py:digits -o training.onnx", "loss and gradients"),
            ("poolgrad export-torch train.py:digits -o training.onnx --optimizer adamw", "new weights"),
            ("poolgrad export-torch train.py:digits -o training.onnx --no-check", "not compared with eager PyTorch"),
        ),
        arguments=(
            argument("source", metavar="FILE:CALLABLE", help="the Python file, and the name of the function"),
            argument("-o", "--output", type=Path, required=True, metavar="OUT.onnx", help="where to write it"),
            argument(
                "--optimizer",
                choices=_OPTIMIZERS,
                metavar="NAME",
                help=f"with an optimizer in the graph: {', '.join(_OPTIMIZERS)}",
            ),
            flag(
                "--dynamic-batch",
                "a symbolic first size of the example inputs; AdaptiveMaxPool is then lowered only if its sizes divide",
            ),
            argument(
                "--dynamic-shapes",
                metavar="JSON",
                help=f"names of further symbolic sizes, for inputs by axis, or of what they are multiples: '{_SHAPES}'",
            ),
            argument("--opset", type=int, default=18, metavar="N", help="version of the default domain (default: 18)"),
            argument(
                "--weights",
                choices=("inputs", "initializers"),
                default="inputs",
                help="weights and buffers as (default: inputs)",
            ),
            argument(
                "--check",
                action=argparse.BooleanOptionalAction,
                default=True,
                help="run the step in onnxruntime, and exit 1 and write nothing if eager PyTorch differs; on unless "
                "--no-check is given",
            ),
            flag("--json", "print the names of inputs and outputs as JSON"),
        ),
        run=_export,
    ),
}
