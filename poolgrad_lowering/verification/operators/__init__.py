"""What onnx's reference evaluator lacks, does wrong or does one element at a time: operators of its own for the check.

Written from the operators' documentation, in numpy; nothing here knows the dialect or the compiler.
"""

from __future__ import annotations

from poolgrad_lowering.verification.operators import aten, moving, pooling, tensorflow

OPERATORS = (*moving.OPERATORS, *pooling.OPERATORS, *tensorflow.OPERATORS, *aten.OPERATORS)
