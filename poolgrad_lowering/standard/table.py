# SPDX-License-Identifier: Apache-2.0

"""The operators of training runtimes: those with a definition, and those that have none, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poolgrad_lowering.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.standard import convolution, elementwise, losses, moving, normalization, pools, tensorflow
from poolgrad_lowering.standard.definition import Definition, Undefined

_MODULES = (convolution, elementwise, losses, moving, normalization, pools, tensorflow)

DEFINITIONS: Mapping[tuple[str, str], Definition] = MappingProxyType(
    {definition.op: definition for module in _MODULES for definition in module.DEFINITIONS}
)
"""The definitions by domain and operator."""

_RECURRENT = "its gradients are loops over time, for which no body is written"
_DISTRIBUTED = "it exchanges values with other processes"
_PYTHON = "it calls a function in Python"
_DEVICE = "onnxruntime writes it for CUDA only"

UNDEFINED: Mapping[tuple[str, str], Undefined] = MappingProxyType(
    {
        undefined.op: undefined
        for undefined in (
            *(
                Undefined(operator, DefinitionCode.RECURRENT_NETWORK, _RECURRENT)
                for operator in ("GRUGrad", "GRUTraining", "LSTMGrad", "LSTMTraining")
            ),
            *(
                Undefined(operator, DefinitionCode.OUTSIDE_OF_THE_GRAPH, _DISTRIBUTED)
                for operator in (
                    "MegatronF",
                    "MegatronG",
                    "NcclAllGather",
                    "NcclAllReduce",
                    "NcclReduceScatter",
                    "Recv",
                    "Send",
                )
            ),
            *(
                Undefined(operator, DefinitionCode.OUTSIDE_OF_THE_GRAPH, _PYTHON)
                for operator in ("PythonOp", "PythonOpGrad")
            ),
            *(
                Undefined(operator, DefinitionCode.OUTSIDE_OF_THE_GRAPH, _DEVICE)
                for operator in (
                    *("BiasDropout", "BiasSoftmax", "BitmaskBiasDropout", "BitmaskDropout", "BitmaskDropoutGrad"),
                    *("FakeQuant", "MatMulBnb4", "SoftmaxDropoutGrad"),
                )
            ),
            Undefined(
                "YieldOp", DefinitionCode.PART_OF_A_STEP, "a step that torch drives is cut here: its halves run apart"
            ),
            *(
                Undefined(
                    operator,
                    DefinitionCode.PART_OF_A_STEP,
                    "it reads sequences of tensors: lower the folder of artifacts",
                )
                for operator in ("AdamWOptimizer", "ClipGradNormV2", "InplaceClipGradNorm", "SGDOptimizerV2")
            ),
        )
    }
)
"""The operators without a definition, by domain and operator."""
