# SPDX-License-Identifier: Apache-2.0

"""Operators for onnx's reference evaluator: those that it lacks, computes incorrectly, or computes slowly.

Written in numpy from the operators' documentation, independent of the dialect and the compiler.
"""

from poolgrad_lowering.verification.operators import aten, moving, pooling

OPERATORS = (*moving.OPERATORS, *pooling.OPERATORS, *aten.OPERATORS)
