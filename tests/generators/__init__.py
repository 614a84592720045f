# SPDX-License-Identifier: Apache-2.0

"""Random training graphs: drawn as small plans, written by code that knows nothing of the compiler.

A plan says which pools there are, over what, in which form each gradient is spelled, and what stands beside them. From
it follow the model, its feeds, the results by definition, and which anchors have to be lowered or refused, and why.
"""
