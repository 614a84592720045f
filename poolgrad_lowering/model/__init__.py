# SPDX-License-Identifier: Apache-2.0

"""What a model is, and what may be wrong with it: reading, the index, the gate, writing, and all codes and errors."""
