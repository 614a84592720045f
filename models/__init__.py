# SPDX-License-Identifier: Apache-2.0

"""Training graphs by their producers, and the programs that build them."""
