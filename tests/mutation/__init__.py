# SPDX-License-Identifier: Apache-2.0

"""Mutation testing: the compiler's reasoning with one thing changed, and whether any test notices."""
