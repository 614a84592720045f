# SPDX-License-Identifier: Apache-2.0

"""All that must be equal in two models outside of the sites: fields, inputs, stored tensors, the order of nodes.

`structure` compares two models as a whole, and returns the differences and the sites that have to be run.
"""
