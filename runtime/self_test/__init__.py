# SPDX-License-Identifier: Apache-2.0

"""A short test of the runtime on this machine, in particular on a new device: `poolgrad self-test`.

It runs small pools and gradients, and sessions with them, on a backend and compares the results with their definition
in numpy. It uses the dialect's operators, but no training graphs, patterns or targets.
"""
