# SPDX-License-Identifier: Apache-2.0

"""The texts of genuine gradients, of which tests replace a step: that leaves another spelling, or a look-alike."""
