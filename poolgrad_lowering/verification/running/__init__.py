# SPDX-License-Identifier: Apache-2.0

"""Runs both sides of a site, or both models from end to end, on the same data, and compares the results bit for bit.

Draws the inputs, chooses sizes, evaluates either side, and checks operands against attributes.
"""
