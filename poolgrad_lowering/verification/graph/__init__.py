# SPDX-License-Identifier: Apache-2.0

"""The model as verification reads it: flat lists of nodes, calls of functions, types and sizes, and windows.

Knows one model at a time, its operators by their definitions, and neither the sites nor how they are run.
"""
