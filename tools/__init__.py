# SPDX-License-Identifier: Apache-2.0

"""Programs that the Makefile runs: they make environments, wheels and what goes into these."""
