# SPDX-License-Identifier: Apache-2.0

"""Ascend products: the table of their operators, and the functions of aclnn that run these."""
