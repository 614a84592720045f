# SPDX-License-Identifier: Apache-2.0

"""Families of gradients: what every step may ask of one, the verdicts on anchors, and a folder for each family."""
