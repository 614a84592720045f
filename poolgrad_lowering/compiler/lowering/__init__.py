# SPDX-License-Identifier: Apache-2.0

"""The pass: matches the anchors of a model, chooses what becomes of each, also by a plan, and rewrites it."""
