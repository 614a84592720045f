# SPDX-License-Identifier: Apache-2.0

"""The rewrite of the model: finds the dead nodes, replaces them, and adds function bodies. Knows no family."""
