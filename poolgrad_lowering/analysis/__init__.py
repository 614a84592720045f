# SPDX-License-Identifier: Apache-2.0

"""Facts about values, each one a proof: type, shape, constants, and the pool that recorded an index."""
