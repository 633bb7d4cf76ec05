"""Functions of the flat namespace under the name of the file in which PyTorch keeps them: `flambeau.functional.einsum`."""

from __future__ import annotations

from .operations.declare.registry import published

__all__ = [  # noqa: F822
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "istft",
    "lu",
    "meshgrid",
    "norm",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
]

_flat = published("")
globals().update({name: _flat[name] for name in __all__})
del _flat
