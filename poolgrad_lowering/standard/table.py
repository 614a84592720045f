# SPDX-License-Identifier: Apache-2.0

"""The operators of training runtimes: those with a definition, and those that have none, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.facts.training_operators import MICROSOFT
from poolgrad_lowering.standard import (  # noqa: F401 - each adds its definitions
    convolution,
    elementwise,
    losses,
    moving,
    normalization,
    pools,
    recurrent,
    resize,
    tensorflow,
)
from poolgrad_lowering.standard.definition import DEFINITIONS

__all__ = ("DEFINITIONS", "UNDEFINED")

_WITHOUT_DEFINITION = (
    (
        DefinitionCode.OUTSIDE_OF_THE_GRAPH,
        "it exchanges values with other processes",
        "MegatronF MegatronG NcclAllGather NcclAllReduce NcclReduceScatter Recv Send",
    ),
    (DefinitionCode.OUTSIDE_OF_THE_GRAPH, "it calls a function in Python", "PythonOp PythonOpGrad"),
    (
        DefinitionCode.OUTSIDE_OF_THE_GRAPH,
        "onnxruntime writes it for CUDA only",
        "BiasDropout BiasSoftmax BitmaskBiasDropout BitmaskDropout BitmaskDropoutGrad FakeQuant MatMulBnb4 "
        "SoftmaxDropoutGrad",
    ),
    (DefinitionCode.PART_OF_A_STEP, "a step that torch drives is cut here: its halves run apart", "YieldOp"),
    (
        DefinitionCode.PART_OF_A_STEP,
        "it reads sequences of tensors: lower the folder of artifacts",
        "AdamWOptimizer ClipGradNormV2 InplaceClipGradNorm SGDOptimizerV2",
    ),
)
"""The code, the reason, and the operators that have no definition for this reason."""

UNDEFINED: Mapping[tuple[str, str], tuple[DefinitionCode, str]] = MappingProxyType(
    {
        (MICROSOFT, operator): (code, reason)
        for code, reason, operators in _WITHOUT_DEFINITION
        for operator in operators.split()
    }
)
"""Why operators have no definition, by domain and operator: the code and the reason."""
