# SPDX-License-Identifier: Apache-2.0

"""The version of this package, without loading the package."""

__version__ = "0.1.0"
