# SPDX-License-Identifier: Apache-2.0

"""Creates the nodes that replace one site, with names that say which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.node_writer import NodeWriter


class SiteWriter(NodeWriter):
    """Collects the nodes of the site whose result is `prefix`, as operators of `opset`."""

    def __init__(self, prefix: str, taken: set[str], opset: int) -> None:
        super().__init__(taken)
        self.opset = opset
        self._prefix = prefix

    def write(
        self, op_type: str, inputs: Sequence[str], hint: str, *, output: str | None = None, **attributes: Any
    ) -> str:
        """Append a node named after `hint`; its one output has the name `output` or that of the node. See `add`."""
        name = self.name(f"{self._prefix}/{hint}")
        return self.add(op_type, inputs, name if output is None else output, node_name=name, **attributes)

    def constant(self, values: npt.ArrayLike, hint: str) -> str:
        """Append a Constant of int64 values and return its output's name."""
        return self.write("Constant", [], hint, value=numpy_helper.from_array(np.asarray(values, np.int64)))

    def transpose(self, source: str, permutation: Sequence[int], hint: str, *, output: str | None = None) -> str:
        """Append a Transpose of `source` and return its output's name."""
        return self.write("Transpose", [source], hint, output=output, perm=list(permutation))

    def reshape(self, source: str, shape: Shape, hint: str, *, output: str | None = None) -> str:
        """Append a Reshape of `source`, whose new shape has at most one symbolic size; return its output's name."""
        target = self.constant([-1 if dim.static is None else dim.static for dim in shape], f"{hint}_shape")
        return self.write("Reshape", [source, target], hint, output=output)
