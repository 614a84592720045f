# SPDX-License-Identifier: Apache-2.0

"""Ascend products and what their operators support: the table that legality, the command line and the docs read.

Source: the pages of these operators in CANN's ops-nn documentation, and the product list of its SoC names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.dialect import ops
from poolgrad_lowering.dialect.aclnn_functions import ASCEND_950, ATLAS_A2_A3, CORES, FLOAT32_EXACT_PLANE, INT32_PLANE
from poolgrad_lowering.model.diagnostics.errors import UnknownTargetError
from poolgrad_lowering.model.diagnostics.text import asked, did_you_mean

_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16))
_INT32 = frozenset((TensorProto.INT32,))


class Support(NamedTuple):
    """What a product's operator supports.

    Types are numbers of `TensorProto.DataType`; `index_types` are those of argmax. `max_plane` is the largest plane in
    elements. `dilation`: whether a pool supports one other than 1, and a gradient computes it right; no gradient needs
    one. `cores`: the most vector cores of a SoC, if the operator fails on float16 and bfloat16 of fewer elements than
    it uses cores; else 0.
    """

    element_types: frozenset[int] = _FLOATS
    index_types: frozenset[int] = _INT32
    max_plane: int = INT32_PLANE
    dilation: bool = False
    cores: int = 0

    def fails_on(self, element_type: int | None, elements: int, windows: int) -> bool:
        """Whether the operator fails on x of so many elements, since it uses at most one core for each window."""
        is_half = element_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        return is_half and elements < min(self.cores, windows)


class Target(NamedTuple):
    """A product: its name on the command line, its title in texts, its SoC names and its operators.

    `chip` is CANN's short name of all its SoCs. `aclnn` names the products with whose functions of aclnn the runtime
    runs it; it is empty without operators. `core_window` is the largest window, in elements, that GE's own MaxPool
    over two axes computes on a core; it is None without a limit. `cann` is the first release of CANN that knows a SoC
    name of the product; releases before 8.5.0 were not examined.
    """

    name: str
    title: str
    chip: str
    socs: tuple[str, ...]
    operators: dict[str, Support]
    aclnn: str = ""
    core_window: int | None = 255
    cann: str = "8.5.0"

    def supports(self, operator: str, element_type: int | None) -> bool:
        """Whether the product has an operator, for an element type if that is known."""
        support = self.operators.get(operator)
        return support is not None and (element_type is None or element_type in support.element_types)


_A2_OPERATORS = {
    ops.MAX_POOL_3D_GRAD: Support(),
    ops.ADAPTIVE_GRAD: Support(max_plane=FLOAT32_EXACT_PLANE),
    ops.MAX_POOL_3D: Support(),
    ops.ADAPTIVE: Support(max_plane=FLOAT32_EXACT_PLANE),
    ops.AVERAGE_3D_GRAD: Support(cores=CORES[ATLAS_A2_A3]),
    ops.ADAPTIVE_AVERAGE_GRAD: Support(),
}
_950_POOLS = Support(index_types=frozenset((TensorProto.INT32, TensorProto.INT64)), dilation=True)
_950_OPERATORS = {
    ops.MAX_POOL_3D_GRAD: _950_POOLS,
    ops.MAX_POOL_2D_GRAD: _950_POOLS._replace(dilation=False),
    **dict.fromkeys((ops.ADAPTIVE_GRAD, ops.MAX_POOL_3D, ops.MAX_POOL_2D, ops.ADAPTIVE), _950_POOLS),
    ops.AVERAGE_3D_GRAD: Support(cores=CORES[ASCEND_950]),
    **dict.fromkeys((ops.AVERAGE_2D_GRAD, ops.ADAPTIVE_AVERAGE_GRAD, ops.ADAPTIVE_AVERAGE_2D_GRAD), Support()),
}

_950_PR = ("950z", "9579", "957b", "957bx", "957c", "957d", "9589", "958b", "9599")
_950_DT = (
    *("950x", "950y", *(str(number) for number in range(9571, 9579)), "9581", "9581x", "9582", "9582x"),
    *(*(str(number) for number in range(9583, 9589)), "9591", "9592", "9595", "9596", "95A1", "95A2"),
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "ascend950",
            "Ascend 950PR / 950DT",
            "Ascend950",
            (*(f"Ascend950PR_{suffix}" for suffix in _950_PR), *(f"Ascend950DT_{suffix}" for suffix in _950_DT)),
            _950_OPERATORS,
            ASCEND_950,
            core_window=None,
            cann="9.0.0",  # 8.5.0 has two of the operators, under an earlier name of the product
        ),
        Target(
            "atlas-a3",
            "Atlas A3 training and inference",
            "Ascend910_93",
            tuple(f"Ascend910_{suffix}" for suffix in (9362, 9363, 9372, 9381, 9382, 9391, 9392)),
            _A2_OPERATORS,
            ATLAS_A2_A3,
        ),
        Target(
            "atlas-a2",
            "Atlas A2 training and inference",
            "Ascend910B",
            tuple(f"Ascend910{suffix}" for suffix in ("B1", "B2", "B2C", "B3", "B4", "B4-1")),
            _A2_OPERATORS,
            ATLAS_A2_A3,
        ),
        Target("ascend350", "Ascend350", "Ascend350", ("Ascend350_354f", "Ascend350_355e"), {}, cann="9.1.0"),
        Target(
            "atlas-200i-500-a2",
            "Atlas 200I/500 A2 inference",
            "Ascend310B",
            tuple(f"Ascend310B{n}" for n in range(1, 5)),
            {},
        ),
        Target("atlas-inference", "Atlas inference", "Ascend310P", tuple(f"Ascend310P{n}" for n in (1, 3, 5, 7)), {}),
        Target(
            "atlas-training",
            "Atlas training",
            "Ascend910",
            # The exact name Ascend910B is a first-generation SoC, not an A2.
            ("Ascend910A", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA", "Ascend910B"),
            {},
        ),
    )
}

DEFAULT_TARGET = "atlas-a2"

_SOCS = {soc: target for target in TARGETS.values() for soc in target.socs}
_BY_SOC = {soc.lower(): target for soc, target in _SOCS.items()}


def find_target(name: str) -> Target:
    """Return the target with a product name or an exact SoC name, ignoring case.

    Raises `UnknownTargetError`, whose message lists the products, and `TypeError` for what is no name.
    """
    if not isinstance(name, str):
        raise TypeError(f"target is a {type(name).__name__}; it takes a name, e.g. 'Ascend910B3'")
    target = TARGETS.get(name.lower()) or _BY_SOC.get(name.lower())
    if target is not None:
        return target
    meant = _meant(name)
    hint = asked(meant) if meant else did_you_mean(name, [*TARGETS, *_SOCS])
    raise UnknownTargetError(
        f"unknown target '{name}'{hint}: give one of {', '.join(TARGETS)}, or a SoC name such as Ascend910B3 "
        "(`poolgrad targets` lists all)."
    )


def _meant(part: str) -> str | None:
    """Return the product or SoC of whose name only a part was given: atlas-a2 for "A2" or "910B".

    None if the part is in no name, or does not tell products apart.
    """
    wanted = _compact(part)
    if len(wanted) < 2:
        return None
    products = [name for name in TARGETS if wanted in _compact(name)]
    shortest = [name for name in products if len(name) == min(map(len, products))]
    if len(shortest) == 1:
        return shortest[0]
    socs = {soc: target for soc, target in _SOCS.items() if wanted in _compact(soc)}
    able = {soc: target for soc, target in socs.items() if target.operators} or socs
    names = list(able) if len(able) == 1 else list({target.name for target in able.values()})
    return names[0] if len(names) == 1 else None


def _compact(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def aclnn_function(op: str, rank: int) -> str:
    """Return the function that runs an operator of the dialect on an x of this rank, (N, C, spatial axes)."""
    return ops.OPS[op].functions[rank][0].name


def aclnn_functions(op: str) -> tuple[str, ...]:
    """Return the functions that run an operator, without duplicates, in the order of x's rank."""
    return tuple(dict.fromkeys(aclnn_function(op, rank) for rank in ops.OPS[op].ranks))
