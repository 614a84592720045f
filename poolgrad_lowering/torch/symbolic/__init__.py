# SPDX-License-Identifier: Apache-2.0

"""Graphs that compute with symbolic sizes: such that they say how large each tensor is, and keep axes apart."""
