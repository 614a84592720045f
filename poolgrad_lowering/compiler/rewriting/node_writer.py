# SPDX-License-Identifier: Apache-2.0

"""Creates ONNX nodes whose names are unique in their model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.graphs import fresh

Attribute = int | str | Sequence[int] | TensorProto


class NodeWriter:
    """Collects new nodes in `nodes`, in order; their names differ from all names in `taken`."""

    def __init__(self, prefix: str, taken: set[str], opset: int) -> None:
        self.nodes: list[NodeProto] = []
        self.opset = opset
        self._prefix = prefix
        self._taken = taken

    def write(
        self,
        op_type: str,
        inputs: Sequence[str],
        hint: str,
        *,
        output: str | None = None,
        domain: str = "",
        stored: Sequence[AttributeProto] = (),
        **attributes: Attribute,
    ) -> str:
        """Append a node with one output and return the output's name: `output`, or a new name with `hint` in it.

        Its attributes are the `stored` ones and `attributes`.
        """
        name = fresh(f"{self._prefix}/{hint}", self._taken)
        result = name if output is None else output
        made = [helper.make_attribute(*each) for each in sorted(attributes.items())]
        node = NodeProto(op_type=op_type, input=inputs, output=[result], name=name, domain=domain)
        node.attribute.extend([*stored, *made])
        self.nodes.append(node)
        return result

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
