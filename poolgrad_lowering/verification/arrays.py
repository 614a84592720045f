# SPDX-License-Identifier: Apache-2.0

"""The types of numpy's arrays in annotations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
NamedArrays = Mapping[str, AnyArray]
"""Arrays by the names of values."""
