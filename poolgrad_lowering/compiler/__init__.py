# SPDX-License-Identifier: Apache-2.0

"""The pass: finds gradients of pools, decides what each becomes on a target, and rewrites the model.

It imports `model` and `dialect` only, and the forms of `patterns`. It knows neither files nor reports.
"""
