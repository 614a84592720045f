# SPDX-License-Identifier: Apache-2.0

"""How to convert an exported model with ATC: the environment and the command, as lines for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from onnx import ModelProto, ValueInfoProto

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.ge.registered import PROTOTYPES, least_release
from poolgrad_lowering.model.ir.graphs import inputs_to_feed

ONNX_FRAMEWORK = 5
"""ATC's number of ONNX, its option `--framework`."""

PLUGIN_FOLDER = "npu-plugin"
"""The folder that the printed lines give to `poolgrad export-atc --plugin`."""

PRECISION_MODE = "must_keep_origin_dtype"
"""ATC's default, force_fp16, would compute float32 gradients in float16."""

_FORMATS = {4: "NCHW", 5: "NCDHW"}
"""The format of an input by its rank."""


class Conversion(NamedTuple):
    """How to run ATC. `environment` and `command` are lines for a POSIX shell, to be run in the model's folder.

    `cann` is the oldest release of CANN that has the model's operators. `socs` are the names that `--soc_version` can
    have: one if the target was given as an exact name. `input_format` and `input_shape` are values of ATC's options;
    `input_shape` is empty if every size is a number; the user replaces the symbols in it by numbers.
    """

    cann: str
    socs: tuple[str, ...]
    environment: tuple[str, ...]
    command: str
    input_format: str
    input_shape: str


def conversion(model: ModelProto, target: Target, soc: str | None, file: str) -> Conversion:
    """Return how to convert an exported model. `soc` is the exact SoC name if it is known, `file` the model's path."""
    operators = {node.op_type for node in model.graph.node if node.domain == DOMAIN and node.op_type in PROTOTYPES}
    inputs = inputs_to_feed(model)
    options = {
        "framework": str(ONNX_FRAMEWORK),
        "model": shlex.quote(file),
        "output": shlex.quote(str(PurePath(file).with_suffix(""))),
        "soc_version": soc or '"$SOC_VERSION"',
        "precision_mode": PRECISION_MODE,
        "input_format": _input_format(inputs),
    }
    if shape := _input_shape(inputs):
        options["input_shape"] = shlex.quote(shape)
    return Conversion(
        cann=least_release(operators, target),
        socs=(soc,) if soc else target.socs,
        environment=tuple(_environment(target.socs[0], needs_plugin=bool(operators), is_exact=soc is not None)),
        command=" ".join(["atc", *(f"--{name}={value}" for name, value in options.items())]),
        input_format=options["input_format"],
        input_shape=shape,
    )


def _environment(soc: str, *, needs_plugin: bool, is_exact: bool) -> Iterator[str]:
    yield "source /usr/local/Ascend/cann/set_env.sh"
    if needs_plugin:
        yield f'eval "$(poolgrad export-atc --plugin {PLUGIN_FOLDER})"'
    if not is_exact:
        yield f"SOC_VERSION={soc}  # replace it by the name that npu-smi info prints"


def _input_format(inputs: list[ValueInfoProto]) -> str:
    """Return ATC's format for all inputs: that of their rank if only one of 4 and 5 occurs, else ND."""
    ranks = {len(value.type.tensor_type.shape.dim) for value in inputs}
    found = [name for rank, name in _FORMATS.items() if rank in ranks]
    return found[0] if len(found) == 1 else "ND"


def _input_shape(inputs: list[ValueInfoProto]) -> str:
    """Return ATC's text of all shapes, `x:N,3,8;y:N`, or an empty text if no size is symbolic."""
    if all(dim.HasField("dim_value") for value in inputs for dim in value.type.tensor_type.shape.dim):
        return ""
    return ";".join(f"{value.name}:{_shape(value)}" for value in inputs)


def _shape(value: ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return ",".join(str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "SIZE" for dim in dims)
