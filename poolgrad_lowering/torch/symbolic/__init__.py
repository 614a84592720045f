# SPDX-License-Identifier: Apache-2.0

"""Sizes that are symbolic: as a caller names them, and where a graph computes with them."""
