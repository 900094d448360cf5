"""The array types that the drift meter shares."""

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
