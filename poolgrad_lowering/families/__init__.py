# SPDX-License-Identifier: Apache-2.0

"""Families of gradients: what one is, the verdicts on its anchors, and what belongs to each family alone."""
