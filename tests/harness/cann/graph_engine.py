# SPDX-License-Identifier: Apache-2.0

"""GE for graph mode: what the stand-in of `cann_ep/` asks about the sub-models that the CANN provider hands over.

The library keeps models and runs them; this module decides, with the stand-in for GE's parser that the tests of ATC use
(`tests/harness/ge`). It refuses what GE's parser and options refuse, and returns a model that computes what GE computes
of the one that was handed over: with the silent changes of the plugins, with the shapes of the option input_shape, and
in float16 unless precision_mode says otherwise. Everything that is handed over is recorded.

`install` connects the library of this process with the only engine, `ENGINE`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.harness.ge.documented import check_kernels
from tests.harness.ge.driver import Parsed, Registration
from tests.harness.ge.faults import OPTION_SYNTAX, GeError
from tests.harness.ge.options import computes_in_float16, parse_input_shape
from tests.harness.ge.parser import GeGraph, parse
from tests.harness.ge.plugin_rules import Context, Library
from tests.harness.ge.prototypes import SOCS, Soc
from tests.harness.ge.standard import replace_nodes

SUCCESS, FAILED, PARAM_INVALID = 0, 0xFFFFFFFF, 0x03000001
"""GE's statuses."""

PRECISION_MODE, SOC_VERSION, INPUT_SHAPE = "ge.exec.precision_mode", "ge.socVersion", "input_shape"
FIRST_LIBRARY = "GE_STAND_IN_FIRST_LIBRARY"
"""The environment's variable that names whose plugins are loaded first, ops-math or ops-nn."""
RECORDS_ONLY = "GE_STAND_IN_RECORDS_ONLY"
"""If the environment's variable is 1, refusals are recorded, and the model runs as it was handed over. So all
sub-models of a session are seen; nothing else may be concluded from it."""

SOC_NAMES: dict[str, Soc] = {"Ascend950": "ascend950", "Ascend910_93": "ascend910_93", "Ascend910B": "ascend910b"}


@dataclass
class SubModel:
    """A model that was given to the parser.

    Attributes:
        name: of its graph.
        nodes: their number.
        operators: how many nodes there are of each operator.
        inputs: the rank of each input, None if the model does not say it.
        refused: why the parser refuses it, or why no model is built of it; empty if neither.
        builds: the options of each aclgrphBuildModel.
    """

    name: str
    nodes: int
    operators: dict[str, int]
    inputs: dict[str, int | None]
    refused: str = ""
    builds: list[dict[str, str]] = field(default_factory=list)

    @property
    def rank_0_inputs(self) -> list[str]:
        """The names of the inputs that are scalars."""
        return [name for name, rank in self.inputs.items() if rank == 0]


class WithoutPlugins:
    """No plugin for other domains."""

    registrations: Mapping[str, Registration] = {}

    def parse(self, key: str, source: Mapping[str, Any], **operator: Any) -> Parsed:
        """Fail: nothing is registered."""
        raise AssertionError(key, source, operator)


class GraphEngine:
    """The state of GE in a process. Its functions may be called by any thread."""

    def __init__(self, first: Library = "ops-math", *, records_only: bool = False) -> None:
        self.first: Library = first
        self.records_only = records_only
        self.sub_models: list[SubModel] = []
        self.initialized: list[dict[str, str]] = []
        self._graphs: dict[int, GeGraph] = {}
        self._lock = threading.Lock()

    def parse(self, data: bytes) -> int:
        """Record a model and return its number.

        Raises:
            GeError: GE's parser does not take it.
        """
        model = onnx.load_from_string(data)
        record = _described(model)
        with self._lock:
            number = len(self.sub_models)
            self.sub_models.append(record)
        with self._recorded(record):
            self._graphs[number] = GeGraph(model, [])
            self._graphs[number] = parse(model, WithoutPlugins(), first=self.first)
        return number

    def initialize(self, options: Mapping[str, str]) -> None:
        """Set the options that hold for all builds of the process.

        Raises:
            GeError: GE does not take one.
        """
        computes_in_float16(options.get(PRECISION_MODE, ""))
        with self._lock:
            self.initialized.append(dict(options))

    def build(self, number: int, options: Mapping[str, str]) -> bytes:
        """Return an ONNX model that computes what the model of this number computes on the device.

        Raises:
            GeError: GE does not take an option.
        """
        graph, record = self._graphs[number], self.sub_models[number]
        record.builds.append(dict(options))
        every = {**(self.initialized[-1] if self.initialized else {}), **options}
        shapes = None
        with self._recorded(record):
            shapes = _shapes(graph.model, every.get(INPUT_SHAPE, ""))
        if shapes is None:
            shapes = _shapes_as_written(every.get(INPUT_SHAPE, ""))
        context = Context(graph.opset, _soc(every.get(SOC_VERSION, "")), graph.first)
        shaped = _with_shapes(graph.model, shapes)
        with self._recorded(record):
            check_kernels(shaped, context)
        half = computes_in_float16(every.get(PRECISION_MODE, ""))
        return _computed(shaped, None if self.records_only else context, half=half)

    def refusals(self) -> list[str]:
        """Return why sub-models were refused."""
        return [f"{each.name}: {each.refused}" for each in self.sub_models if each.refused]

    @contextlib.contextmanager
    def _recorded(self, record: SubModel) -> Iterator[None]:
        """Write a refusal into the record, and raise it unless refusals are only recorded."""
        try:
            yield
        except GeError as error:
            record.refused = record.refused or str(error)
            if not self.records_only:
                raise

    def report(self) -> dict[str, Any]:
        """Return the records as values of JSON."""
        with self._lock:
            return {"initialized": self.initialized, "sub_models": [asdict(each) for each in self.sub_models]}


def _described(model: ModelProto) -> SubModel:
    graph = model.graph
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: _rank(value) for value in graph.input if value.name not in initializers}
    return SubModel(graph.name, len(graph.node), dict(Counter(node.op_type for node in graph.node)), inputs)


def _rank(value: onnx.ValueInfoProto) -> int | None:
    tensor = value.type.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def _soc(name: str) -> Soc:
    return next((soc for prefix, soc in SOC_NAMES.items() if name.startswith(prefix)), SOCS[0])


def _shapes(model: ModelProto, text: str) -> dict[str, list[int]]:
    """Return the shape of each input: the option's, else the model's; an input without a shape is a scalar.

    Raises:
        GeError: the text is refused, or a size is not known. GE then builds for a range of shapes, which is not
            followed.
    """
    if "-1" in text or "~" in text:
        raise GeError.of(OPTION_SYNTAX, f"the stand-in has no ranges of shapes: {text}")
    given = parse_input_shape(text) if text else {}
    constants = {tensor.name for tensor in model.graph.initializer}
    declared = {
        value.name: [dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
        if value.name not in constants
    }
    shapes = {name: given.get(name, shape) for name, shape in declared.items()}
    if unknown := [name for name, shape in shapes.items() if -1 in shape]:
        raise GeError.of(OPTION_SYNTAX, f"the stand-in has no ranges of shapes: {unknown}")
    return shapes


def _shapes_as_written(text: str) -> dict[str, list[int]]:
    """Return the shapes of the option as the CANN provider means them: an entry without a colon is a scalar."""
    entries = [entry.rpartition(":") for entry in text.split(";") if entry]
    return {name or sizes: [int(size) for size in sizes.split(",")] if name else [] for name, _, sizes in entries}


def _with_shapes(model: ModelProto, shapes: Mapping[str, list[int]]) -> ModelProto:
    """Return the model with these shapes of its inputs.

    GE infers types and shapes itself, so those that are declared between inputs and outputs are left out.
    """
    shaped = ModelProto()
    shaped.CopyFrom(model)
    del shaped.graph.value_info[:]
    for value in shaped.graph.input:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, element, shapes[value.name]))
    return shaped


def _computed(model: ModelProto, context: Context | None, *, half: bool) -> bytes:
    """Return the model with nodes that compute what GE computes in the context; the model is changed."""
    if context:
        replace_nodes(model.graph, context)
    if half:
        _round_to_float16(model.graph)
    for value in model.graph.output:
        value.ClearField("type")
    return model.SerializeToString()


def _round_to_float16(graph: GraphProto) -> None:
    """Round the float32 inputs, constants and outputs of a graph to numbers of float16."""
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            with np.errstate(over="ignore"):
                rounded = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    constants = {tensor.name for tensor in graph.initializer}
    made = {name for node in graph.node for name in node.output}
    inputs = [value.name for value in graph.input if _is_single(value) and value.name not in constants]
    outputs = [value.name for value in graph.output if _is_single(value) and value.name in made]
    for node in graph.node:
        _rename(node.input, inputs, "/half")
        _rename(node.input, outputs, "/single")
        _rename(node.output, outputs, "/single")
    before = [node for name in inputs for node in _rounding(name, f"{name}/half")]
    after = [node for name in outputs for node in _rounding(f"{name}/single", name)]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


def _is_single(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)


def _rename(names: Any, renamed: list[str], suffix: str) -> None:
    names[:] = [name + suffix if name in renamed else name for name in names]


def _rounding(value: str, output: str) -> list[NodeProto]:
    half = f"{output}/float16"
    return [
        helper.make_node("Cast", [value], [half], to=TensorProto.FLOAT16),
        helper.make_node("Cast", [half], [output], to=TensorProto.FLOAT),
    ]


# -- the library

ENGINE = GraphEngine(
    "ops-nn" if os.environ.get(FIRST_LIBRARY) == "ops-nn" else "ops-math",
    records_only=os.environ.get(RECORDS_ONLY) == "1",
)

_CALL = ctypes.CFUNCTYPE(
    ctypes.c_uint32,
    ctypes.c_char_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
)
"""Status of (function, number, options, their size, data, its size, reply). Options are texts that each end with 0."""


def install(home: Path) -> None:
    """Connect the library below `home` with `ENGINE`. Before this its parser refuses every model."""
    _LIBRARY.append(library := ctypes.CDLL(str(home / "lib64" / "libascendcl.so")))
    library.standInAnswer.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.standInAnswer.restype = None
    library.standInSetEngine.argtypes = [_CALL]
    library.standInSetEngine.restype = None
    library.standInSetEngine(_CALLBACK)


def _called(*call: Any) -> int:
    """Call the engine for the library. Returns the status; the reply is the result, or the message of a failure."""
    function, number, options, options_size, data, size, reply = call
    texts = ctypes.string_at(options, options_size).decode(errors="surrogateescape").split("\0")
    named = dict(zip(texts[::2], texts[1::2], strict=False))
    try:
        status, answer = SUCCESS, _answer(function.decode(), number, named, ctypes.string_at(data, size))
    except GeError as error:
        is_option = error.faults[0].code.startswith("E100")
        status, answer = PARAM_INVALID if is_option else FAILED, str(error).encode(errors="replace")
    except Exception as error:
        status, answer = FAILED, f"the stand-in for GE fails: {error!r}".encode(errors="replace")
    _LIBRARY[0].standInAnswer(reply, answer, len(answer))
    return status


def _answer(function: str, number: int, options: Mapping[str, str], data: bytes) -> bytes:
    if function == "parse":
        return str(ENGINE.parse(data)).encode()
    if function == "initialize":
        ENGINE.initialize(options)
        return b""
    return ENGINE.build(number, options)


_LIBRARY: list[Any] = []
_CALLBACK = _CALL(_called)
