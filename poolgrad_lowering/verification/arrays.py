# SPDX-License-Identifier: Apache-2.0

"""The types of numpy's arrays in annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
