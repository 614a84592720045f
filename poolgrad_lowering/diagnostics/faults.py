"""Why an input is turned away as a whole: one table of faults, shared by checks, errors, tests and docs."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from poolgrad_lowering.diagnostics.printable import printable


class Fault(Enum):
    """What is wrong with an input; `FAULTS` says what each means and what to do."""

    ATTRIBUTE_NAME = "attribute-name"
    ATTRIBUTE_TWICE = "attribute-twice"
    ATTRIBUTE_TYPE = "attribute-type"
    ATTRIBUTE_VALUE = "attribute-value"
    CYCLE = "cycle"
    DOMAIN_NOT_IMPORTED = "domain-not-imported"
    EXTERNAL_EXTENT = "external-extent"
    EXTERNAL_LOCATION = "external-location"
    FUNCTION_TWICE = "function-twice"
    IR_VERSION = "ir-version"
    NAME_NOT_UTF8 = "name-not-utf8"
    NAME_SHADOWED = "name-shadowed"
    NAME_TWICE = "name-twice"
    NESTING = "nesting"
    NOT_ONNX = "not-onnx"
    NO_OPERATOR = "no-operator"
    NO_OUTPUT = "no-output"
    OPSET_TWICE = "opset-twice"
    OPSET_VERSION = "opset-version"
    RECURSION = "recursion"
    TENSOR_DATA = "tensor-data"
    TENSOR_DIMS = "tensor-dims"
    TENSOR_TYPE = "tensor-type"
    TOO_LARGE = "too-large"
    TOO_MANY_NODES = "too-many-nodes"
    UNMADE_VALUE = "unmade-value"


class Meaning(NamedTuple):
    """A fault for people: the condition, and what its user can do."""

    condition: str
    advice: str


FAULTS: dict[Fault, Meaning] = {
    Fault.ATTRIBUTE_NAME: Meaning("An attribute has no name.", "Name it, or export the model anew."),
    Fault.ATTRIBUTE_TWICE: Meaning("A node has two attributes of one name.", "Keep the one that is meant."),
    Fault.ATTRIBUTE_TYPE: Meaning(
        "An attribute has no type, one that ONNX does not have, or holds something else than its type says.",
        "Set the attribute's type and the one field that belongs to it (onnx.helper.make_attribute does).",
    ),
    Fault.ATTRIBUTE_VALUE: Meaning(
        "A pool's kernel, stride or dilation is below 1, a pad is below 0, or one of them is above 2^31 − 1.",
        "Correct the attribute where the model is made.",
    ),
    Fault.CYCLE: Meaning(
        "A node needs a value that is computed from its own output. (Nodes in any other order are fine.)",
        "Break the cycle: rename the value that is written over.",
    ),
    Fault.DOMAIN_NOT_IMPORTED: Meaning(
        "A node's operator is of a domain that its model or function does not import.",
        "Add the domain and its version to opset_import.",
    ),
    Fault.EXTERNAL_EXTENT: Meaning(
        "The offset or length of external data is no number of bytes, or the length is not that of the tensor.",
        "Store the external data anew (onnx.save with save_as_external_data=True).",
    ),
    Fault.EXTERNAL_LOCATION: Meaning(
        "External data has no location, more than one, or one outside of the model's folder: absolute, with '..', by a "
        "link, or an address in memory.",
        "Put the data beside the model and name it relative to the model's folder.",
    ),
    Fault.FUNCTION_TWICE: Meaning(
        "Two functions have the same domain, name and overload.", "Remove the one that is not meant."
    ),
    Fault.IR_VERSION: Meaning(
        "The model has no ir_version, or a newer one than the installed onnx knows.",
        "Install a newer onnx, or export the model for an older one.",
    ),
    Fault.NAME_NOT_UTF8: Meaning("A name is not UTF-8 text.", "Write the model anew with its exporter."),
    Fault.NAME_SHADOWED: Meaning(
        "A node of a subgraph makes a value of the name that a value around the subgraph already has.",
        "Give the inner value a name of its own.",
    ),
    Fault.NAME_TWICE: Meaning(
        "Two inputs, initializers or node outputs of one scope have one name. (An initializer may be an input's "
        "default.)",
        "Give each value a name of its own.",
    ),
    Fault.NESTING: Meaning(
        "Subgraphs, or functions that call functions, are nested deeper than the limit.",
        "Raise the limit if the model is meant to be so; protobuf itself reads about 33 levels of subgraphs.",
    ),
    Fault.NOT_ONNX: Meaning(
        "The file is empty, does not parse as an ONNX model (or nests deeper than protobuf reads), or has no graph.",
        "Give a file that an ONNX exporter wrote (binary .onnx).",
    ),
    Fault.NO_OPERATOR: Meaning("A node has no op_type.", "Remove the node, or name its operator."),
    Fault.NO_OUTPUT: Meaning("The main graph has no outputs.", "Declare what the model computes as graph outputs."),
    Fault.OPSET_TWICE: Meaning(
        "One domain is imported in two versions ('' and 'ai.onnx' are one domain).",
        "Keep the version that the nodes are written in.",
    ),
    Fault.OPSET_VERSION: Meaning(
        "An imported version is below 1, or a newer one of ONNX's own operators than the installed onnx knows.",
        "Install a newer onnx, or convert the model (onnx.version_converter).",
    ),
    Fault.RECURSION: Meaning("A function calls itself, directly or through others.", "Write the recursion as a Loop."),
    Fault.TENSOR_DATA: Meaning(
        "A stored tensor's data is not as long as its dims and element type say, is in a field of another type, in two "
        "fields, or in none.",
        "Write the tensor anew (onnx.numpy_helper.from_array does).",
    ),
    Fault.TENSOR_DIMS: Meaning(
        "A stored tensor has a negative size, or more than 2^63 − 1 elements.", "Write the tensor with its real dims."
    ),
    Fault.TENSOR_TYPE: Meaning(
        "A stored tensor has no element type, or one that the installed onnx does not know.",
        "Set the tensor's data_type, or install a newer onnx.",
    ),
    Fault.TOO_LARGE: Meaning(
        "The file or the model has more bytes than the limit.",
        "Keep the weights as external data (onnx.save with save_as_external_data=True).",
    ),
    Fault.TOO_MANY_NODES: Meaning(
        "The model has more nodes than the limit, each call of a function counted with all that it calls.",
        "Raise the limit if the model is meant to be so large.",
    ),
    Fault.UNMADE_VALUE: Meaning(
        "A node or an output reads a value that no input, initializer or node makes.",
        "Correct the name, or add what makes the value.",
    ),
}


class Flaw(NamedTuple):
    """A fault of one thing, and what exactly it is; where the thing is says who asked."""

    fault: Fault
    what: str


_SHOWN = 80


def shown(name: object) -> str:
    """A name out of a model, for a message: quoted, on one line, without control characters, not endless."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def shown_path(path: object) -> str:
    """A path of names for a message, each part as in `shown`, but without quotes. A name may be bytes, no text."""
    parts = printable(str(path)).split("/")
    return "/".join(part if len(part) <= _SHOWN else f"{part[:_SHOWN]}…" for part in parts)
