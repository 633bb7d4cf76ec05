"""Random sparse tensors of all layouts, and the dense ones that they are."""

from __future__ import annotations

import numpy as np

import flambeau

COO, CSR, CSC = flambeau.sparse_coo, flambeau.sparse_csr, flambeau.sparse_csc
BSR, BSC = flambeau.sparse_bsr, flambeau.sparse_bsc
LAYOUTS = (COO, CSR, CSC, BSR, BSC)
COMPRESSED = LAYOUTS[1:]
BLOCKED = (BSR, BSC)


def generator(seed=0):
    return np.random.default_rng(seed)


def dense_array(shape, seed=0, density=0.4, dtype="float64"):
    """Small whole numbers, most of them zero."""
    rng = generator(seed)
    values = rng.integers(1, 9, size=shape) * rng.choice([-1, 1], size=shape) * (rng.random(shape) < density)
    return values.astype(dtype)


def coordinates(shape, sparse_dim=None, nnz=None, seed=0, dtype="float64"):
    """A tensor in coordinates with places listed twice, in no order."""
    rng = generator(seed)
    sparse_dim = len(shape) if sparse_dim is None else sparse_dim
    room = int(np.prod(shape[:sparse_dim]))
    nnz = (min(12, 2 * room) if nnz is None else nnz) if room else 0
    at = np.array([rng.integers(0, n, size=nnz) if n else np.zeros(0, int) for n in shape[:sparse_dim]])
    values = rng.integers(-8, 9, size=(nnz, *shape[sparse_dim:])).astype(dtype)
    return flambeau.sparse_coo_tensor(at.reshape(sparse_dim, nnz), values, shape)


def of_layout(x, layout, block=(2, 2)):
    """A dense tensor in that layout."""
    if layout is COO:
        return x.to_sparse()
    return x.to_sparse(layout=layout, blocksize=block if layout in BLOCKED else None)


def sample(layout, shape=(4, 6), seed=0, dtype="float64"):
    """A sparse matrix, in coordinates with places listed twice."""
    if layout is COO:
        return coordinates(shape, seed=seed, dtype=dtype)
    return of_layout(flambeau.tensor(dense_array(shape, seed, dtype=dtype)), layout)


def array(x):
    """The elements of a tensor of any layout as an array."""
    return x.detach().to_dense().numpy()
