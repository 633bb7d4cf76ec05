"""What the checkpoints under `tests/data/torch/dcp` hold, by name: NumPy says the values, and how a tensor is cut over processes."""

from __future__ import annotations

import numpy as np

OBJECTS = {"epoch": 7, "lr": 0.125, "name": "run-1", "history": [3, 1, 2], "none": None}
# Nested as programs nest them: {"model": {…}, "optim": {"state": {…}, "param_groups": [{…}]}, …}.
GROUPS = [{"lr": 0.1, "betas": [0.9, 0.999]}, {"lr": 0.01, "betas": [0.8, 0.99]}]


def filled(shape: tuple[int, ...], kind: str, start: int = 0) -> np.ndarray:
    """Numbers that tell where they stand."""
    return (np.arange(np.prod(shape, dtype=int), dtype="int64") + start).reshape(shape).astype(kind)


def whole() -> dict[str, np.ndarray]:
    """Tensors that every process has as a whole."""
    return {
        "bias": filled((5,), "float32", 100),
        "scalar": np.array(3.5, dtype="float64"),
        "counts": filled((2, 3), "int64"),
        "flags": np.array([True, False, True]),
        "empty": np.zeros((0, 4), dtype="float32"),
        "complex": filled((3,), "complex64") * (1 + 2j),
    }


def cut() -> dict[str, tuple[np.ndarray, int]]:
    """Tensors that are cut over the processes, and the dimension."""
    return {
        "rows": (filled((7, 3), "float32"), 0),
        "columns": (filled((2, 8), "float64", 50), 1),
        "few": (filled((2, 2), "float32", 7), 0),  # fewer rows than processes
        "cube": (filled((3, 5, 2), "int32", 9), 1),
    }


def chunk(shape: tuple[int, ...], dim: int, rank: int, size: int) -> tuple[list[int], list[int]]:
    """Offsets and sizes of what a process has, as PyTorch's DTensor cuts: ceil(n / size) each, the last ones less or none."""
    n = shape[dim]
    each = -(-n // size)
    begin = min(rank * each, n)
    offsets, sizes = [0] * len(shape), list(shape)
    offsets[dim], sizes[dim] = begin, min(begin + each, n) - begin
    return offsets, sizes
