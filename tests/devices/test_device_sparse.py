"""Sparse tensors of an accelerator: places by its own orders and searches, beside the CPU's loops."""

from __future__ import annotations

import numpy as np
import pytest
from accelerator import DEVICE, TYPE, array, driver, same

import flambeau
from flambeau.core.lib.sparse import sparse_rows
from flambeau.operations.on_device import places

RNG = np.random.default_rng(4)
CALLS = {
    "coalesce": lambda x, y: x.to_sparse(),
    "twice": lambda x, y: (x.to_sparse() + x.to_sparse()).coalesce(),
    "csr": lambda x, y: x.to_sparse_csr(),
    "csc": lambda x, y: x.to_sparse_csc(),
    "turned": lambda x, y: x.to_sparse_csr().to_sparse_csc(),
    "product": lambda x, y: x.to_sparse_csr() @ y,
    "product of coordinates": lambda x, y: x.to_sparse() @ y,
    "transposed": lambda x, y: x.t().to_sparse() @ y.narrow(0, 0, 6),
    "sum": lambda x, y: flambeau.sparse.sum(x.to_sparse(), 0),
    "softmax": lambda x, y: flambeau.sparse.softmax(x.to_sparse(), 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_results_of_the_cpu(name):
    a = RNG.standard_normal((6, 9)) * (RNG.random((6, 9)) < 0.4)
    x, y = flambeau.from_numpy(a), flambeau.from_numpy(RNG.standard_normal((9, 4)))
    expected = CALLS[name](x, y).to_dense()
    actual = CALLS[name](x.to(DEVICE), y.to(DEVICE)).to_dense()
    assert actual.device == DEVICE
    np.testing.assert_allclose(array(actual), array(expected), rtol=1e-12)


def test_places():
    rows, columns = flambeau.from_numpy(RNG.integers(0, 5, 30)), flambeau.from_numpy(RNG.integers(0, 7, 30))
    moved = rows.to(DEVICE), columns.to(DEVICE)
    same(places.by_rows(moved[0], 5), sparse_rows.by_rows(rows, 5))
    ascending = rows.sort().values
    starts, order = places.by_rows(ascending.to(DEVICE), 5)
    assert order is None
    same(starts, sparse_rows.by_rows(ascending, 5)[0])
    same(places.row_numbers(starts, 30), sparse_rows.row_numbers(starts.cpu(), 30))
    for kind in (flambeau.int64, flambeau.int32):
        given = starts.to(kind), moved[1].to(kind)
        same(places.turned(*given, 7), sparse_rows.turned(*(t.cpu() for t in given), 7))
    at = flambeau.stack([rows, columns])
    same(places.coalesced(at.to(DEVICE), (5, 7)), sparse_rows.coalesced(at, (5, 7)))
    with pytest.raises(IndexError, match="outside of its size"):
        places.coalesced(at.to(DEVICE), (5, 3))
    with pytest.raises(IndexError, match="outside of its size"):
        places.by_rows(moved[0], 2)


BROKEN = {
    "fine": ([0, 2, 3], [0, 1, 1], True),
    "first": ([1, 2, 3], [0, 1, 1], False),
    "last": ([0, 2, 2], [0, 1, 1], False),
    "step": ([0, 3, 3], [0, 1, 1], False),
    "place": ([0, 2, 3], [0, 2, 1], False),
    "sequence": ([0, 2, 3], [1, 0, 1], False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rules_of_compressed_tensors(name):
    starts, columns, good = BROKEN[name]
    given = [flambeau.tensor(t, device=DEVICE) for t in (starts, columns)]
    assert places.keeps_rules(*given, 2, True) == good
    make = lambda: flambeau.sparse_csr_tensor(
        *given, flambeau.ones(3, device=DEVICE), (2, 2), check_invariants=True
    )
    if good:
        assert make().to_dense().tolist() == [[1, 1], [0, 1]]
    else:
        with pytest.raises(RuntimeError, match="is not satisfied"):
            make()


@pytest.mark.skipif(TYPE != "opencl", reason="OpenCL's seam counts what leaves the device")
def test_only_numbers_travel():
    x = (flambeau.rand(50, 60) * (flambeau.rand(50, 60) < 0.3)).to(DEVICE)
    y, device = flambeau.rand(60, 8).to(DEVICE), driver()
    copies, nbytes = device.copies_out, device.bytes_out
    for call in ("coalesce", "twice", "csr", "turned", "product", "product of coordinates"):
        CALLS[call](x, y)
    copies, nbytes = device.copies_out - copies, device.bytes_out - nbytes
    assert nbytes <= 16 * copies
