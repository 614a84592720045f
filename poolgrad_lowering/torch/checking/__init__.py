# SPDX-License-Identifier: Apache-2.0

"""Compares steps with eager PyTorch."""
