# SPDX-License-Identifier: Apache-2.0

"""Translation validation of a lowered model, from the two models alone.

Shares with the compiler only the dialect's table, and how files, external data and lists of nodes are read: it has its
own graph representation, finds the sites by comparing the models, and evaluates the original with its own operators.
"""
