# SPDX-License-Identifier: Apache-2.0

"""What a graph proves of its values: element types, shapes, constants, zeros. A fact is derived when it is needed."""
