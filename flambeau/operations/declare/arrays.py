"""Between tensors and NumPy arrays, for what NumPy, SciPy and LAPACK compute."""

from __future__ import annotations

from typing import Any

from ...core.base.tensor import TensorBase
from ...core.make.bridge import from_numpy


def array(t: TensorBase) -> Any:
    """The elements as a NumPy array."""
    return t.detach().numpy()


def tensor(a: Any) -> TensorBase:
    """A tensor of an array's elements, in row-major order."""
    import numpy as np

    return from_numpy(np.array(a, order="C"))
