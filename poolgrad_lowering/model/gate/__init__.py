# SPDX-License-Identifier: Apache-2.0

"""The gate: validates a model while its index is built, before anything else uses it.

`flaws` finds what is wrong with a part; `gate.Gate` adds the place and raises. The gate accepts what onnxruntime
accepts, including unsorted node lists and unknown operators.
"""
