# SPDX-License-Identifier: Apache-2.0

"""What forms of several families share: the spellings of producers that are not those of one pool."""
