# SPDX-License-Identifier: Apache-2.0

"""The pass: matches the anchors of a model, chooses what becomes of each, and rewrites it."""
