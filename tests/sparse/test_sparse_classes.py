"""The old classes of sparse tensors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize(
    "name, kind",
    [
        ("FloatTensor", "float32"),
        ("DoubleTensor", "float64"),
        ("LongTensor", "int64"),
        ("HalfTensor", "float16"),
    ],
)
def test_old_classes_make_and_tell_tensors(name, kind):
    cls = getattr(torch.sparse, name)
    indices, values = torch.tensor([[0, 2]]), torch.tensor([1, 2])
    x = cls(indices, values, torch.Size([4]))
    assert x.dtype is getattr(torch, kind) and x.layout is torch.sparse_coo
    assert np.array_equal(x.to_dense().float().numpy(), [1, 0, 2, 0])
    assert (
        isinstance(x, cls)
        and not isinstance(x.to_dense(), cls)
        and not isinstance(values.to_sparse().bool(), cls)
    )
    assert (
        cls(2, 3).shape == cls((2, 3)).shape == (2, 3)
        and cls().shape == (0,)
        and cls(indices, values).shape == (3,)
    )
    assert cls.is_sparse and cls.__module__ == "flambeau.sparse"


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_neither_arrays_nor_assignments(layout):
    """TypeErrors, as of an object that is no array."""
    x = torch.eye(4).to_sparse(
        layout=getattr(torch, f"sparse_{layout}"), blocksize=(2, 2) if layout[0] == "b" else None
    )
    for read in (x.numpy, lambda: x.numpy(force=True), lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError, match="layout tensor to numpy. Use Tensor.to_dense"):
            read()
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        x[0, 0] = 1.0
