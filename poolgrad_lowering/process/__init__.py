# SPDX-License-Identifier: Apache-2.0

"""The environment variables that a lowering reads."""
