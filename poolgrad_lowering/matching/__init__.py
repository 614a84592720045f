# SPDX-License-Identifier: Apache-2.0

"""What the forms share: the questions that they ask of a graph around an anchor."""
