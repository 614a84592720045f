# SPDX-License-Identifier: Apache-2.0

"""What proofs of gradients need beyond facts: which pool recorded an index, and values computed from given ones."""
