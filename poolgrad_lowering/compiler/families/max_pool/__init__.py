# SPDX-License-Identifier: Apache-2.0

"""Max pools: how their gradients are matched, verified, given an operator of a target, joined and emitted."""
