# SPDX-License-Identifier: Apache-2.0

"""The report of a lowering: what became of each anchor, notes on the model, operators before and after, drawings."""
