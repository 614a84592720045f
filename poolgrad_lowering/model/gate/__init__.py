# SPDX-License-Identifier: Apache-2.0

"""The gate: validates a model while its index is built, before anything else uses it.

Each module checks one aspect of the protobuf and returns a `Flaw` or None; `gate.Gate` adds the place and raises. The
gate accepts what onnxruntime accepts, including unsorted node lists and unknown operators.
"""
