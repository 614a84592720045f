# SPDX-License-Identifier: Apache-2.0

"""The faults for which a whole model is rejected. Checks, errors, tests and docs share this table."""

from __future__ import annotations

from typing import NamedTuple

from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic
from poolgrad_lowering.model.diagnostics.text import printable


class Fault(Diagnostic):
    """What is wrong with an input: `value` is its code, `meaning` and `advice` say what it means and what to do."""

    ATTRIBUTE_NAME = "An attribute has no name.", "Name it, or export the model again."
    ATTRIBUTE_TWICE = "A node has two attributes of the same name.", "Keep the one that is meant."
    ATTRIBUTE_TYPE = (
        "An attribute has no type, a type that ONNX does not define, or a value of another type.",
        "Set the attribute's type and the one field that belongs to it (onnx.helper.make_attribute does).",
    )
    ATTRIBUTE_VALUE = (
        "A pool's kernel, stride or dilation is below 1, a pad is below 0, or one of them is above 2^31 − 1.",
        "Correct the attribute in the code that creates the model.",
    )
    CYCLE = (
        "A node uses a value that is computed from its own output. (The order of the nodes does not matter.)",
        "Break the cycle: rename the value that is assigned twice.",
    )
    DOMAIN_NOT_IMPORTED = (
        "A node's operator has a domain that its model or function does not import.",
        "Add the domain and its version to opset_import.",
    )
    EXTERNAL_EXTENT = (
        "The offset or length of external data is not a number of bytes, or the length is not that of the tensor.",
        "Store the external data again (onnx.save with save_as_external_data=True).",
    )
    EXTERNAL_LOCATION = (
        "External data has no location, more than one, or one outside the model's folder: an absolute path, a path "
        "with '..', a link, or an address in memory.",
        "Put the data next to the model and use a location relative to the model's folder.",
    )
    FUNCTION_TWICE = "Two functions have the same domain, name and overload.", "Remove the one that is not meant."
    INPUT_MISSING = "A node of ONNX lacks an input that its operator requires.", "Give it the input."
    IR_VERSION = (
        "The model has no ir_version, or a newer one than the installed onnx knows.",
        "Install a newer onnx, or export the model with an older ir_version.",
    )
    NAME_NOT_UTF8 = "A name is not UTF-8 text.", "Export the model again."
    NAME_SHADOWED = (
        "A node of a subgraph defines a value with the name of a value of an enclosing graph.",
        "Give the inner value a unique name.",
    )
    NAME_TWICE = (
        "Two inputs, initializers or node outputs of one scope have the same name. (An initializer may be an input's "
        "default.)",
        "Give each value a unique name.",
    )
    NESTING = (
        "Subgraphs, or functions that call functions, are nested deeper than the limit.",
        "Raise the limit if the nesting is intended; protobuf itself reads about 33 levels of subgraphs.",
    )
    NOT_ONNX = (
        "The file is empty, does not parse as an ONNX model (or nests deeper than protobuf reads), or has no graph.",
        "Use a file that an ONNX exporter wrote (binary .onnx).",
    )
    NO_OPERATOR = "A node has no op_type.", "Remove the node, or name its operator."
    NO_OUTPUT = "The main graph has no outputs.", "Declare what the model computes as graph outputs."
    OPSET_TWICE = (
        "One domain is imported in two versions ('' and 'ai.onnx' are one domain).",
        "Keep the version that the nodes use.",
    )
    OPSET_VERSION = (
        "An imported version is below 1, or that of ONNX's own operators is newer than the installed onnx.",
        "Install a newer onnx, or convert the model (onnx.version_converter).",
    )
    RECURSION = "A function calls itself, directly or through others.", "Write the recursion as a Loop."
    TENSOR_DATA = (
        "The data of a stored tensor does not have the length that its dims and element type require, or is in the "
        "field of another type, in two fields, or in none.",
        "Create the tensor again (onnx.numpy_helper.from_array).",
    )
    TENSOR_DIMS = "A stored tensor has a negative size, or more than 2^63 − 1 elements.", "Correct the tensor's dims."
    TENSOR_TYPE = (
        "A stored tensor has no element type, or one that the installed onnx does not support.",
        "Set the tensor's data_type, or install a newer onnx.",
    )
    TOO_LARGE = (
        "The file or the model has more bytes than the limit.",
        "Keep the weights as external data (onnx.save with save_as_external_data=True).",
    )
    TOO_MANY_NODES = (
        "The model has more nodes than the limit. Each call of a function counts all nodes that it expands to.",
        "Raise the limit if the size is intended.",
    )
    UNMADE_VALUE = (
        "A node or an output uses a value that no input, initializer or node defines.",
        "Correct the name, or add a definition of the value.",
    )


class Flaw(NamedTuple):
    """A fault, and a sentence about it without its place, which the caller knows."""

    fault: Fault
    what: str


_SHOWN = 80


def shown(name: object) -> str:
    """Return a model's name for a message: quoted, without control characters, cut to about 80 characters."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def shown_path(path: object) -> str:
    """Return a path of names for a message: each part as in `shown`, but without quotes. A name may be bytes."""
    parts = printable(str(path)).split("/")
    return "/".join(part if len(part) <= _SHOWN else f"{part[:_SHOWN]}…" for part in parts)
