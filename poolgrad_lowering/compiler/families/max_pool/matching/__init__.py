# SPDX-License-Identifier: Apache-2.0

"""What the forms share: checks and searches in the graph around an anchor."""
