# SPDX-License-Identifier: Apache-2.0

"""Max pools: how their gradients are matched, checked, and given an operator of a target."""
