# SPDX-License-Identifier: Apache-2.0

"""The compiler as a pass of other tools, one module for each tool; only that module imports the tool."""
