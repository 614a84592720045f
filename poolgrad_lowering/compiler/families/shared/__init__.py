# SPDX-License-Identifier: Apache-2.0

"""What several families use, whichever family a gradient is of."""
