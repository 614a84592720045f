# SPDX-License-Identifier: Apache-2.0

"""Bytes to the package and its libraries: whatever comes in, only what is promised comes out."""
