# SPDX-License-Identifier: Apache-2.0

"""A model while it is worked on: its scopes, nodes, values and uses, over the bytes or messages that it consists of."""
