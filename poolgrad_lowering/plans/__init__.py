# SPDX-License-Identifier: Apache-2.0

"""Lowering plans, which users edit: writes, reads, validates and applies them."""
