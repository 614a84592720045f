# SPDX-License-Identifier: Apache-2.0

"""What a target can run: its operators, and how the windows of a gradient or pool are legalized for them."""
