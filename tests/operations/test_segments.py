"""Reductions of segments, and indices of sparse layouts, beside NumPy."""

import functools

import numpy as np
import pytest

import flambeau

DATA = np.array([[1.0, 3.0], [3.0, 3.0], [3.0, 6.0], [3.0, 2.0], [0.5, 4.0], [0.25, 0.5]])
LENGTHS = [1, 0, 3, 2]
REDUCTIONS = {
    "sum": (np.sum, 0.0),
    "mean": (np.mean, np.nan),
    "prod": (np.prod, 1.0),
    "max": (np.max, -np.inf),
    "amax": (np.max, -np.inf),
    "min": (np.min, np.inf),
    "amin": (np.min, np.inf),
}


def reduced(data, lengths, reduce):
    function, empty = REDUCTIONS[reduce]
    parts = np.split(data, np.cumsum(lengths))[:-1]
    return np.stack([function(p, 0) if len(p) else np.full(p.shape[1:], empty) for p in parts])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segments_by_lengths_and_offsets(reduce, dtype):
    data = flambeau.tensor(DATA, dtype=getattr(flambeau, dtype))
    expected = reduced(DATA, LENGTHS, reduce)
    ends = np.cumsum([0, *LENGTHS])
    for index in (flambeau.int32, flambeau.int64):
        for given in ({"lengths": LENGTHS}, {"offsets": ends}):
            given = {name: flambeau.tensor(x, dtype=index) for name, x in given.items()}
            found = flambeau.segment_reduce(data, reduce, **given)
            assert found.dtype == data.dtype
            np.testing.assert_allclose(found.double().numpy(), expected, rtol=1e-2 if "16" in dtype else 1e-6)


def test_segments_of_every_batch():
    data = np.random.default_rng(0).standard_normal((2, 3, 5, 4))
    lengths = np.array([[[2, 3, 0], [0, 0, 5], [1, 1, 3]], [[5, 0, 0], [2, 2, 1], [0, 4, 1]]])
    for reduce in REDUCTIONS:
        expected = [[reduced(d, n, reduce) for d, n in zip(*pair)] for pair in zip(data, lengths)]
        for axis in (2, -2):
            found = flambeau.segment_reduce(
                flambeau.tensor(data), reduce, lengths=flambeau.tensor(lengths), axis=axis
            )
            np.testing.assert_allclose(found.numpy(), expected)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_of_segments(reduce):
    """Against differences; `initial` takes part, and elements that are equal share what their extreme gets."""
    x = flambeau.tensor(DATA + np.arange(12).reshape(6, 2) * 0.01, requires_grad=True)
    n = flambeau.tensor(LENGTHS)
    for initial in (None, 2.0):
        if initial is None and reduce == "mean":
            n = flambeau.tensor([1, 2, 3])
        call = functools.partial(flambeau.segment_reduce, reduce=reduce, lengths=n, initial=initial)
        assert flambeau.autograd.gradcheck(lambda x, call=call: call(x).nan_to_num(0, 0, 0), (x,))
    ties = flambeau.tensor([2.0, 2.0, 1.0], requires_grad=True)
    found = flambeau.segment_reduce(ties, "max", lengths=flambeau.tensor([3]), initial=2.0)
    (found * 6).backward()
    assert ties.grad.tolist() == [3.0, 3.0, 0.0]


def test_rows_without_a_segment_and_data_without_rows():
    x = flambeau.tensor(DATA)
    found = flambeau.segment_reduce(x, "sum", offsets=flambeau.tensor([1, 2, 4]))
    assert found.tolist() == [[3.0, 3.0], [6.0, 8.0]]
    found = flambeau.segment_reduce(x, "sum", lengths=flambeau.tensor([1, 2]), unsafe=True)
    assert found.tolist() == [[1.0, 3.0], [6.0, 9.0]]
    none = flambeau.tensor([0, 0])
    assert flambeau.segment_reduce(x[:0], "sum", lengths=none).tolist() == [[0.0, 0.0]] * 2
    assert flambeau.segment_reduce(x[:0], "max", lengths=none, initial=3).tolist() == [[3.0, 3.0]] * 2
    assert flambeau.segment_reduce(x, "max", lengths=flambeau.tensor([3, 3]), initial=4).tolist() == [
        [4.0, 6.0],
        [4.0, 4.0],
    ]
    assert flambeau.segment_reduce(x, "sum", lengths=none[:0], unsafe=True).shape == (0, 2)


def integers(*values):
    return flambeau.tensor(values)


X = flambeau.ones(4, 2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: flambeau.segment_reduce(X, "sum"), RuntimeError, "either lengths or offsets"),
        (lambda: flambeau.segment_reduce(X, "median", lengths=integers(4)), RuntimeError, "got 'median'"),
        (
            lambda: flambeau.segment_reduce(X, "sum", lengths=integers(1, 2)),
            RuntimeError,
            "sum to .* 4, got 3",
        ),
        (lambda: flambeau.segment_reduce(X, "sum", lengths=integers(5, -1)), RuntimeError, "negative"),
        (lambda: flambeau.segment_reduce(X, "sum", offsets=integers(0, 5)), RuntimeError, "at most 4"),
        (lambda: flambeau.segment_reduce(X, "sum", offsets=integers(3, 1)), RuntimeError, "ascend"),
        (lambda: flambeau.segment_reduce(X, "sum", indices=integers(0, 1)), RuntimeError, "indices"),
        (lambda: flambeau.segment_reduce(X, "sum", lengths=integers(4), axis=1), RuntimeError, "axis"),
        (lambda: flambeau.segment_reduce(X, "sum", lengths=integers(4), axis=2), IndexError, "out of range"),
        (lambda: flambeau.segment_reduce(X, "sum", lengths=X[:, 0]), NotImplementedError, "lengths"),
        (lambda: flambeau.segment_reduce(X.long(), "sum", lengths=integers(4)), NotImplementedError, "int64"),
        (lambda: flambeau._convert_indices_from_coo_to_csr(integers([0], [1]), 2), RuntimeError, "vector"),
        (lambda: flambeau._convert_indices_from_coo_to_csr(X[0], 2), NotImplementedError, "float32"),
        (lambda: flambeau._convert_indices_from_coo_to_csr(integers(0), -1), RuntimeError, "'size'"),
        (
            lambda: flambeau._convert_indices_from_csr_to_coo(integers(0, 2), integers(0, 0, 1)),
            RuntimeError,
            "number of elements, 3",
        ),
        (
            lambda: flambeau._convert_indices_from_csr_to_coo(integers(0, 2), integers([0], [0])),
            RuntimeError,
            "rows . 1",
        ),
    ],
)
def test_what_does_not_fit(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_rows_to_starts_and_back(dtype):
    rows = np.sort(np.random.default_rng(1).integers(0, 9, 30))
    expected = np.searchsorted(rows, np.arange(12))
    given = flambeau.tensor(rows, dtype=getattr(flambeau, dtype))
    found = flambeau._convert_indices_from_coo_to_csr(given, 11)
    assert found.dtype == flambeau.int64 and found.tolist() == expected.tolist()
    out = flambeau.empty(0, dtype=flambeau.int32)
    assert flambeau._convert_indices_from_coo_to_csr(given, 11, out_int32=True, out=out) is out
    assert out.tolist() == expected.tolist()
    columns = flambeau.arange(30)
    back = flambeau._convert_indices_from_csr_to_coo(found, columns)
    assert back.tolist() == [rows.tolist(), columns.tolist()]
    back = flambeau._convert_indices_from_csr_to_coo(out, columns.int(), out_int32=True, transpose=True)
    assert back.dtype == flambeau.int32 and back.tolist() == [columns.tolist(), rows.tolist()]


def test_indices_of_batches():
    starts = flambeau.tensor([[0, 2, 2, 3], [0, 1, 1, 3]])
    columns = flambeau.tensor([[1, 0, 2], [0, 1, 2]])
    found = flambeau._convert_indices_from_csr_to_coo(starts, columns)
    assert found.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 2, 0, 2, 2], [1, 0, 2, 0, 1, 2]]
    none = flambeau._convert_indices_from_csr_to_coo(flambeau.tensor([0]), columns[0, :0])
    assert none.shape == (2, 0)
    assert flambeau._convert_indices_from_coo_to_csr(columns[0, :0], 2).tolist() == [0, 0, 0]
