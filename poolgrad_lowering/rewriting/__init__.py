# SPDX-License-Identifier: Apache-2.0

"""The rewrite of the model: finds the dead nodes, writes the new nodes, and adds the function bodies they need."""
