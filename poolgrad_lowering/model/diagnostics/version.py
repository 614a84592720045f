# SPDX-License-Identifier: Apache-2.0

"""The version of this package, without loading the package."""

from __future__ import annotations

__version__ = "0.1.0"
