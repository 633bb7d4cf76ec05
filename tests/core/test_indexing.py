"""Indexing against NumPy: keys read and written, gradients, gather and scatter, errors raised before any write."""

from __future__ import annotations

import math
import random
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import autograd
from flambeau.core.places import indexing

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex128"]


def make(*shape: int, dtype: str = "float64", requires_grad: bool = False):
    t = flambeau.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype))
    return t.requires_grad_() if requires_grad else t


def same(t, expected) -> None:
    assert tuple(t.shape) == np.shape(expected)
    np.testing.assert_array_equal(t.detach().numpy(), expected)


def for_numpy(key):
    """The key with tensors as arrays."""
    if isinstance(key, tuple):
        return tuple(for_numpy(k) for k in key)
    return key.numpy() if isinstance(key, flambeau.Tensor) else key


T = flambeau.tensor
MASK = T([[True, False, True], [False, False, True]])
BASIC = [
    0,
    -1,
    (1, 2),
    (1, 2, 3),
    slice(None),
    slice(1, None),
    slice(0, 9, 2),
    (slice(None), slice(-2, None)),
    (..., 0),
    (0, ..., slice(None, None, 3)),
    None,
    (None, 1, None, slice(2), ..., None),
    (),
    ...,
    (..., slice(5, 2)),
    np.int64(1),
    (np.int32(-1), slice(1, 2)),
]
ADVANCED = [
    [0, 1, 1],
    [-1],
    np.array([[0, 1], [1, 0]]),
    T([1, 0, 1]),
    T([[1], [0]]),
    (slice(None), T([2, 0])),
    (..., T([3, -1, 0])),
    (T([0, 1]), T([2, 0])),
    (T([[0], [1]]), T([2, 0, 1])),
    (T([0, 1]), slice(None), T([3, 1])),
    (T([0, 1]), None, T([2, 1])),
    (slice(None), T([0, 1]), T([1, 2])),
    MASK,
    (slice(None), T([True, False, True])),
    (MASK, slice(1, 3)),
    (..., T([True, False, False, True])),
    (T([True, True]), T([0, 2])),
    np.array([1, 0]),
    (np.array([True, False]), slice(None, None, 2)),
    T([], dtype=flambeau.int64),
    [],
    (T([0, 1], dtype=flambeau.int32), 1),
    True,
    False,
    (True, 0),
]


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_get(key, order):
    """Where tensors and numbers are mixed the dimensions go where NumPy has them after the numbers were applied."""
    a = np.arange(24.0).reshape(2, 3, 4) if order == (0, 1, 2) else np.arange(24.0).reshape(2, 4, 3)
    x, a = flambeau.from_numpy(a).permute(order), a.transpose(order)
    same(x[key], a[for_numpy(key)])


SEVERAL = [k for k in BASIC + ADVANCED if isinstance(k, tuple) and len(k) > 1]


@pytest.mark.parametrize(
    "key", [*SEVERAL, ([0], [1]), ([0, 1], 1), ((0, 1), (1, 1)), ([True, False], 0)], ids=str
)
def test_sequences_that_stand_for_tuples(key):
    """A short list with a sequence, a slice, None or ... in it is a tuple, as NumPy had it and PyTorch has it, and warns."""
    x, expected = make(2, 3, 4), make(2, 3, 4)[key]
    if not any(k is None or isinstance(k, (slice, list, tuple, flambeau.Tensor)) or k is ... for k in key):
        return  # a list of numbers
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        same(x[list(key)], expected)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        x[list(key)] = -1.0
    same(x[key], -flambeau.ones_like(expected))
    assert (x == -1).sum() <= expected.numel()
    if "bool" not in str([getattr(k, "dtype", k) for k in key]) and "True" not in str(key):
        many = make(5, 2, 3, 4)
        with pytest.warns(UserWarning, match="non-tuple sequence"):
            found = flambeau.func.vmap(lambda t: t[list(key)])(many)
        same(found, flambeau.stack([t[key] for t in many]))


def test_sequences_that_are_index_tensors():
    x = make(2, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[[0, 1, 1]].shape == (3, 3, 4) and x[range(2)].shape == (2, 3, 4)
        assert x[np.array([[0, 1], [1, 1]])].shape == (2, 2, 3, 4) and x[[]].shape == (0, 3, 4)
        assert x[[np.int64(1)]].shape == (1, 3, 4) and x[[[0, 1]] * 32].shape == (32, 2, 3, 4)


@pytest.mark.parametrize(
    "key, plain",
    [
        ([1.9], [1]),
        ([-0.5, True], [0, 1]),
        ([[2.0, 0.0]], ([2, 0],)),
        (([1.0, 0.0], [0, 1]), ([1, 0], [0, 1])),
        ((slice(None), [1.0]), (slice(None), [1])),
        ([16777217.0 - 16777215.0], [2]),
        ([-1.5] * 40, [-1] * 40),
        (np.array([1.9, 0.0]), [1, 0]),
        (np.array(1.0), 1),
    ],
    ids=str,
)
def test_sequences_of_floats_are_cut_to_integers(key, plain):
    x = make(3, 4)
    same(x[key], x.numpy()[plain])
    x[key] = -1.0
    expected = make(3, 4).numpy()
    expected[plain] = -1.0
    same(x, expected)


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_basic_keys_give_views(key):
    x = make(2, 3, 4)
    assert x[key]._base is x


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
def test_set(key):
    for value in (7, 0.5, "row"):
        a = np.arange(24.0).reshape(2, 3, 4)
        x = make(2, 3, 4)
        if value == "row":
            value = np.arange(100, 100 + a[for_numpy(key)].size, dtype=float).reshape(a[for_numpy(key)].shape)
            if isinstance(key, list) and len(set(map(str, key))) < len(key):
                continue  # the last of equal indices wins here; NumPy leaves it open
        a[for_numpy(key)] = value
        x[key] = flambeau.from_numpy(value) if isinstance(value, np.ndarray) else value
        same(x, a)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
def test_gradients(key):
    """Reading: the gradient is added up at the places read.  Writing: none for what was overwritten."""
    x = make(2, 3, 4, requires_grad=True)
    y = (x * 1)[key]
    w = np.arange(1.0, y.numel() + 1).reshape(y.shape)
    (grad,) = autograd.grad((y * y * flambeau.from_numpy(w)).sum(), x, create_graph=True)
    weights = np.zeros((2, 3, 4))
    np.add.at(weights, for_numpy(key), w)
    np.testing.assert_allclose(grad.detach().numpy(), 2 * weights * x.detach().numpy())
    if grad.requires_grad:
        (again,) = autograd.grad(grad.sum(), x)
        np.testing.assert_allclose(again.numpy(), 2 * weights)
    value = make(*y.shape, requires_grad=True)
    z = x * 1
    z[key] = value * 2
    (mine, theirs) = autograd.grad((z * z).sum() / 2, (x, value), allow_unused=True)
    kept = np.ones((2, 3, 4))
    kept[for_numpy(key)] = 0
    same(mine, kept * x.detach().numpy())
    if y.numel() and len(np.unique(np.arange(24).reshape(2, 3, 4)[for_numpy(key)])) == y.numel():
        same(theirs, 4 * value.detach().numpy())


def test_random_keys():
    """Slices and index tensors mixed; numbers are left out, whose dimensions NumPy places differently."""
    pick = random.Random(0)
    for _ in range(600):
        shape = [pick.randint(1, 4) for _ in range(pick.randint(1, 4))]
        key = []
        for n in shape[: pick.randint(1, len(shape))]:
            kind = pick.randrange(4)
            if kind == 0:
                start, stop, step = pick.randint(-n, n), pick.randint(-n, n), pick.randint(1, 3)
                key.append(slice(start, stop, step))
            elif kind == 1:
                key.append(slice(None))
            elif kind == 2:
                key.append(T([pick.randrange(-n, n) for _ in range(2)]))
            else:
                key.append(T([[pick.randrange(-n, n)] for _ in range(3)]))
        a = np.arange(np.prod(shape)).reshape(shape)
        same(flambeau.from_numpy(a)[tuple(key)], a[for_numpy(tuple(key))])


def test_numbers_are_applied_before_index_tensors():
    x = make(2, 3, 4)
    same(x[0, :, T([1, 2])], x.numpy()[0][:, [1, 2]])
    assert x[T(1)]._base is x  # a 0-dim index tensor is a number


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    a = np.arange(40).reshape(8, 5).astype(dtype)
    x = flambeau.from_numpy(a)
    rows, columns = [3, -1, 3, 0], [0, 4, 4, 1]
    same(x[rows], a[rows])
    same(x[rows, columns], a[rows, columns])
    same(x[:, columns], a[:, columns])
    same(x.t()[columns], a.T[columns])
    mask = np.arange(40).reshape(8, 5) % 3 == 0
    same(x[flambeau.from_numpy(mask)], a[mask])
    same(x.gather(1, T([[2, 2]] * 8)), a[:, [2, 2]])
    a[1:3, columns[:2]] = a[5:7, columns[:2]]
    x[1:3, columns[:2]] = x[5:7, columns[:2]]
    same(x, a)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_gathers(threads):
    before = flambeau.get_num_threads()
    r = np.random.default_rng(0)
    a = r.normal(size=(700, 300)).astype(np.float32)
    rows, columns = r.integers(-700, 700, 900), r.integers(0, 300, (700, 200))
    x = flambeau.from_numpy(a)
    flambeau.set_num_threads(threads)
    try:
        same(x[flambeau.from_numpy(rows)], a[rows])
        same(x.t()[:, flambeau.from_numpy(rows)], a.T[:, rows])
        same(x.gather(1, flambeau.from_numpy(columns)), np.take_along_axis(a, columns, 1))
        same(x[x > 0], a[a > 0])
    finally:
        flambeau.set_num_threads(before)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, :4],  # gaps between positions of the first dimension
        lambda x: x[:, 1:5].flip(0),
        lambda x: x[:1, :4].expand(3, 4, 5),  # the same rows at each
        lambda x: x.mT[:, 1:5],  # no row without gaps
        lambda x: x[:, ::2][:, :4],
    ],
)
@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
def test_views_as_sources(view, shared):
    """Rows are read where they lie; those of the written tensor itself, as they were."""
    drawn = np.random.default_rng(4).standard_normal((3, 9, 9))[:, :, :5].astype(np.float32)
    places = [6, 0, 6, 3]
    for added in (False, True):
        x = flambeau.zeros(3, 9, 5)
        x[...] = flambeau.from_numpy(drawn)
        other = x if shared else flambeau.from_numpy(drawn.copy())
        source = view(
            other if view(other).shape == (3, 4, 5) else flambeau.from_numpy(drawn[:, :5, :].copy())
        )
        values = source.numpy().copy()
        expected = drawn.copy()
        for k, place in enumerate(places):
            expected[:, place] = expected[:, place] * added + values[:, k]
        index = flambeau.tensor(places)
        assert (x.index_add_ if added else x.index_copy_)(1, index, source) is x
        np.testing.assert_array_equal(x.numpy(), expected)


def test_equal_indices_add_up_in_order():
    r = np.random.default_rng(0)
    index, values = r.integers(0, 5, 4000), r.normal(size=4000).astype(np.float32)
    expected = np.zeros(5, np.float32)
    for i, v in zip(index, values):
        expected[i] += v
    i, v = flambeau.from_numpy(index), flambeau.from_numpy(values)
    same(flambeau.zeros(5).index_put((i,), v, accumulate=True), expected)
    same(flambeau.zeros(5).index_add(0, i, v), expected)
    same(flambeau.zeros(5).scatter_add(0, i, v), expected)
    x = flambeau.zeros(5, requires_grad=True)
    x[i].backward(v)
    same(x.grad, expected)


def test_halves_add_up_in_float32():
    index, values = T([0] * 4096), flambeau.ones(4096).to(flambeau.float16)
    x = flambeau.zeros(1).to(flambeau.float16)
    assert x.index_add(0, index, values).item() == 4096
    assert x.scatter_add(0, index, values).item() == 4096
    x.requires_grad_()
    x[index].backward(values)
    assert x.grad.item() == 4096


# --- index operations -------------------------------------------------------------------------------------------------
def test_index_operations():
    a, index = np.arange(12.0).reshape(3, 4), np.array([2, 0])
    x, i = flambeau.from_numpy(a), T([2, 0])
    same(x.index_select(0, i), a[index])
    same(x.index_select(-1, i.to(flambeau.int32)), a[:, index])
    same(T(5.0).index_select(0, T([0])), 5.0)
    source = np.array([[10.0] * 4, [20.0] * 4])
    s = flambeau.from_numpy(source)
    expected = a.copy()
    expected[index] += 3 * source
    same(x.index_add(0, i, s, alpha=3), expected)
    expected = a.copy()
    expected[index] = source
    same(x.index_copy(0, i, s), expected)
    same(x.index_put((i,), s), expected)
    expected[index] = -1
    same(x.index_fill(0, i, -1), expected)
    same(x.index_fill(0, i, T(-1.0)), expected)
    same(x, a)
    assert x.clone().index_fill_(0, i, -1).tolist() == expected.tolist()


def test_take_and_put():
    a = np.arange(12.0).reshape(3, 4)
    x, index = flambeau.from_numpy(a.copy()), np.array([[0, -1], [5, 5]])
    i = flambeau.from_numpy(index)
    same(x.take(i), np.take(a, index))
    same(x.t().take(i), np.take(a.T, index))
    for t, b in ((x.clone(), a.copy()), (x.clone().t(), a.copy().T)):
        t.put_(i, flambeau.ones(2, 2, dtype=flambeau.float64), accumulate=True)
        flat = b.flatten()
        np.add.at(flat, index, 1)
        same(t, flat.reshape(b.shape))


def test_index_reduce():
    x, i, s = T([[8.0, 2.0], [3.0, 4.0]]), T([0, 0]), T([[1.0, 5.0], [6.0, -1.0]])
    for name, expected in (("prod", [48, -10]), ("mean", [5, 2]), ("amax", [8, 5]), ("amin", [1, -1])):
        assert indexing.index_reduce(x, 0, i, s, name).tolist() == [expected, [3, 4]]
    assert indexing.index_reduce(x, 0, i, s, "mean", include_self=False).tolist() == [[3.5, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="reduce argument"):
        indexing.index_reduce(x, 0, i, s, "sum")


def test_masks():
    a = np.arange(6.0).reshape(2, 3)
    x, mask = flambeau.from_numpy(a), flambeau.from_numpy(a % 2 == 0)
    same(x.masked_select(mask), a[a % 2 == 0])
    same(x.masked_select(T([True, False, True])), a[:, [0, 2]].ravel())
    same(
        x.masked_scatter(mask, T([10.0, 20.0, 30.0, 40.0], dtype=flambeau.float64)), [[10, 1, 20], [3, 30, 5]]
    )
    same(flambeau.nonzero(x), np.argwhere(a))
    for got, expected in zip(flambeau.nonzero(x, as_tuple=True), np.nonzero(a), strict=True):
        same(got, expected)
    assert flambeau.nonzero(T(3.0)).shape == (1, 0) and flambeau.nonzero(T(0)).shape == (0, 0)
    large = np.random.default_rng(0).random((3, 5, 70)) > 0.9
    same(flambeau.nonzero(flambeau.from_numpy(large)), np.argwhere(large))
    same(flambeau.nonzero(flambeau.from_numpy(large).permute(2, 0, 1)), np.argwhere(large.transpose(2, 0, 1)))


def test_take_along_dim():
    a = np.random.default_rng(0).normal(size=(3, 4, 5))
    x = flambeau.from_numpy(a)
    order = np.argsort(a, axis=1)
    same(flambeau.take_along_dim(x, flambeau.from_numpy(order), 1), np.sort(a, axis=1))
    same(flambeau.take_along_dim(x, T([[[1], [0]]]), 1), np.take_along_axis(a, np.array([[[1], [0]]]), 1))
    same(flambeau.take_along_dim(x, T([7, -1])), a.ravel()[[7, -1]])


# --- gather and scatter -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather_and_scatter(dim):
    r = np.random.default_rng(dim + 5)
    a, src = r.normal(size=(3, 4, 5)), r.normal(size=(3, 4, 5))
    index = np.argsort(r.random((3, 4, 5)), axis=dim)[:2, :3, :4]
    if index.shape[dim] and index.max() >= a.shape[dim]:
        index %= a.shape[dim]
    x, s, i = flambeau.from_numpy(a), flambeau.from_numpy(src), flambeau.from_numpy(index)
    places = list(np.indices(index.shape))
    read = tuple(places)
    places[dim] = index
    places = tuple(places)
    same(x.gather(dim, i), a[places])
    expected = a.copy()
    expected[places] = src[read]
    same(x.scatter(dim, i, s), expected)
    expected = a.copy()
    expected[places] = 2.5
    same(x.scatter(dim, i, 2.5), expected)
    same(x.scatter(dim, i, value=2.5), expected)
    expected = a.copy()
    np.add.at(expected, places, src[read])
    np.testing.assert_allclose(x.scatter_add(dim, i, s).numpy(), expected)
    np.testing.assert_allclose(x.scatter(dim, i, s, reduce="add").numpy(), expected)
    np.testing.assert_allclose(x.scatter_reduce(dim, i, s, "sum").numpy(), expected)
    for name, combine in (("amax", np.maximum), ("amin", np.minimum), ("prod", np.multiply)):
        expected = a.copy()
        combine.at(expected, places, src[read])
        np.testing.assert_allclose(x.scatter_reduce(dim, i, s, name).numpy(), expected)


def test_scatter_reduce_without_self():
    x, i = T([10.0, 20.0, 30.0]), T([0, 0, 2])
    src = T([1.0, 4.0, 7.0])
    for name, expected in (
        ("sum", [5, 20, 7]),
        ("mean", [2.5, 20, 7]),
        ("prod", [4, 20, 7]),
        ("amax", [4, 20, 7]),
        ("amin", [1, 20, 7]),
    ):
        assert x.scatter_reduce(0, i, src, name, include_self=False).tolist() == expected
    assert x.scatter_reduce(0, i, src, "mean").tolist() == [5, 20, 18.5]
    assert T([-1, 0]).scatter_reduce(0, T([0, 0]), T([-1, 0]), "mean").tolist() == [-1, 0]
    nan = T([1.0]).scatter_reduce(0, T([0, 0]), T([float("nan"), 2.0]), "amax").item()
    assert nan != nan


def numeric(f, *tensors):
    """Gradients of sum(w·f) by central differences."""
    found = []
    for t in tensors:
        a, grad = t.detach().numpy(), np.zeros(t.shape)
        for place in np.ndindex(*t.shape):
            before, at = a[place], []
            for step in (1e-6, -1e-6):
                a[place] = before + step
                at.append(f(*[u.detach() for u in tensors]).item())
            a[place] = before
            grad[place] = (at[0] - at[1]) / 2e-6
        found.append(grad)
    return found


@pytest.mark.parametrize("shape", [(3, 4), (2, 3)])
@pytest.mark.parametrize(
    "name, call",
    [
        ("gather", lambda x, i, s: x.gather(0, i)),
        ("scatter", lambda x, i, s: x.scatter(0, T([[0, 1, 2], [2, 0, 1]]), s)),
        ("scatter a number", lambda x, i, s: x.scatter(0, i, 3)),
        ("scatter_add", lambda x, i, s: x.scatter_add(0, i, s)),
        ("sum", lambda x, i, s: x.scatter_reduce(0, i, s, "sum", include_self=False)),
        ("mean", lambda x, i, s: x.scatter_reduce(0, i, s, "mean")),
        ("mean alone", lambda x, i, s: x.scatter_reduce(0, i, s, "mean", include_self=False)),
        ("prod", lambda x, i, s: x.scatter_reduce(0, i, s, "prod")),
        ("prod alone", lambda x, i, s: x.scatter_reduce(0, i, s, "prod", include_self=False)),
        ("amax", lambda x, i, s: x.scatter_reduce(0, i, s, "amax")),
        ("amin alone", lambda x, i, s: x.scatter_reduce(0, i, s, "amin", include_self=False)),
        ("index_add", lambda x, i, s: x[:, :3].index_add(0, T([1, 1]), s[:2, :3], alpha=2)),
        ("index_copy", lambda x, i, s: x[:, :3].index_copy(0, T([2, 0]), s[:2, :3])),
        ("index_put", lambda x, i, s: x.index_put((T([0, 0, 2]), T([1, 1, 0])), s[0, :3], accumulate=True)),
        ("broadcast values", lambda x, i, s: x.index_put((T([0, 2]),), s[0, 0])),
        ("take", lambda x, i, s: x.take(T([[5, -1], [5, 0]]))),
        ("put", lambda x, i, s: x.put(T([5, 0]), s[0, :2], accumulate=True)),
        ("masked_select", lambda x, i, s: x.masked_select(T([True, False, True, True]))),
        ("masked_scatter", lambda x, i, s: x.masked_scatter(T([True, False, False, True]), s.repeat(2, 2))),
    ],
)
def test_gradients_of_operations(name, call, shape):
    r = np.random.default_rng(1)
    x = flambeau.from_numpy(r.normal(size=(3, 4))).requires_grad_()
    s = flambeau.from_numpy(r.normal(size=shape)).requires_grad_()
    i = T([[0, 2, 2], [0, 2, 1]])
    weights = flambeau.from_numpy(r.normal(size=call(x, i, s).shape))

    def f(x, s):
        return (call(x, i, s) * weights).sum()

    grads = autograd.grad(f(x, s), (x, s), allow_unused=True)
    for got, expected in zip(grads, numeric(f, x, s)):
        np.testing.assert_allclose(
            np.zeros(expected.shape) if got is None else got.numpy(), expected, atol=1e-6
        )


def test_products_with_zeros_have_gradients():
    x = T([2.0, 0.0, 3.0], dtype=flambeau.float64, requires_grad=True)
    s = T([0.0, 5.0, 0.0, 0.0], dtype=flambeau.float64, requires_grad=True)
    i = T([0, 1, 2, 2])
    x.scatter_reduce(0, i, s, "prod").sum().backward()
    same(x.grad, [0, 5, 0])
    same(s.grad, [2, 0, 0, 0])


# --- the tape and in-place writing ---------------------------------------------------------------------------------------
def test_writes_into_views_reach_the_base():
    x = make(2, 3, requires_grad=True)
    v = make(2, requires_grad=True)
    z = x * 1
    z[1][[0, 2]] = v * 3
    z.t()[0, 0] = 9
    (z * z).sum().backward()
    same(z, [[9, 1, 2], [0, 4, 3]])
    same(x.grad, [[0, 2, 4], [0, 8, 0]])
    same(v.grad, [0, 18])


def test_values_of_other_dtypes_are_converted():
    x = flambeau.zeros(3)
    x[1] = T(2, dtype=flambeau.int64)
    x[T([0, 2])] = T([1.5, 2.5], dtype=flambeau.float64)
    assert x.tolist() == [1.5, 2, 2.5] and x.dtype == flambeau.float32
    x[:] = flambeau.ones(1, 1, 3)
    assert x.tolist() == [1, 1, 1]
    u = flambeau.zeros(2, dtype=flambeau.uint8)
    u[0] = 2.7
    u[1] = -1
    assert u.tolist() == [2, 255]


def test_an_index_changed_after_use_is_noticed():
    x, i = make(3, requires_grad=True), T([0, 1])
    y = (x * 1)[i]
    i[0] = 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_values_from_the_same_memory():
    x = make(4)
    x[T([0, 1, 2])] = x[1:]
    same(x, [1, 2, 3, 3])
    x = make(4)
    x.scatter_(0, T([3, 2, 1, 0]), x)
    same(x, [3, 2, 1, 0])


# --- errors ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "error, call",
    [
        (IndexError, lambda x: x[5]),
        (IndexError, lambda x: x[0, 0, 0]),
        (IndexError, lambda x: x[0][0][0]),
        (ValueError, lambda x: x[::0]),
        (ValueError, lambda x: x[::0]),
        (IndexError, lambda x: x[T([0, 3])]),
        (IndexError, lambda x: x[T([-4])]),
        (IndexError, lambda x: x[1.0]),
        (IndexError, lambda x: x[T([0.0])]),
        (IndexError, lambda x: x[np.float32(1)]),
        (IndexError, lambda x: x[[T(1.0)]]),
        (RuntimeError, lambda x: x.__setitem__([math.nan], 1.0)),
        (RuntimeError, lambda x: x.__setitem__([1e20], 1.0)),
        (TypeError, lambda x: x.__setitem__([1j], 1.0)),
        (IndexError, lambda x: x[T([True, False])]),
        (IndexError, lambda x: x[T([0, 1]), T([0, 1, 2])]),
        (RuntimeError, lambda x: x.__setitem__(0, flambeau.ones(3))),
        (RuntimeError, lambda x: x.__setitem__(T([0, 1]), flambeau.ones(3))),
        (IndexError, lambda x: x.__setitem__(T([0, 7]), 1.0)),
        (TypeError, lambda x: x.__setitem__(0, [1, 2, 3, 4])),
        (TypeError, lambda x: x.__setitem__(0, "a")),
        (IndexError, lambda x: x.index_select(0, T([5]))),
        (IndexError, lambda x: x.index_select(0, T([-1]))),
        (IndexError, lambda x: x.index_select(0, T([[1]]))),
        (RuntimeError, lambda x: x.index_select(0, T([1.0]))),
        (IndexError, lambda x: x.index_select(5, T([1]))),
        (RuntimeError, lambda x: x.gather(0, T([[5]]))),
        (RuntimeError, lambda x: x.gather(0, T([[-1]]))),
        (RuntimeError, lambda x: x.gather(0, T([0]))),
        (RuntimeError, lambda x: x.gather(0, flambeau.zeros(1, 7).to(flambeau.int64))),
        (RuntimeError, lambda x: x.scatter_(0, T([[0, 5]]), 1.0)),
        (RuntimeError, lambda x: x.scatter_(0, T([[1]]), x.to(flambeau.float64))),
        (RuntimeError, lambda x: x.scatter_(0, flambeau.zeros(5, 5).to(flambeau.int64), x)),
        (RuntimeError, lambda x: x.scatter_add_(0, T([[1.0]]), x)),
        (RuntimeError, lambda x: x.scatter_reduce_(0, T([[0]]), x, "median")),
        (RuntimeError, lambda x: x.index_add_(0, T([0, 5]), flambeau.ones(2, 4))),
        (RuntimeError, lambda x: x.index_add_(0, T([0]), flambeau.ones(2, 4))),
        (RuntimeError, lambda x: x.index_add_(0, T([0]), flambeau.ones(1, 3))),
        (RuntimeError, lambda x: x.index_add_(0, T([0]), flambeau.ones(1, 4).to(flambeau.float64))),
        (IndexError, lambda x: x.index_copy_(0, T([0, 5]), flambeau.ones(2, 4))),
        (IndexError, lambda x: x.index_copy_(0, T([0]), flambeau.ones(2, 4))),
        (IndexError, lambda x: x.index_fill_(0, T([0, 5]), 1)),
        (RuntimeError, lambda x: x.index_fill_(0, T([0]), flambeau.ones(2))),
        (RuntimeError, lambda x: x.index_put_((T([0]),), flambeau.ones(4).to(flambeau.float64))),
        (IndexError, lambda x: x.index_put_((T([0, 9]),), flambeau.ones(4))),
        (IndexError, lambda x: x.take(T([50]))),
        (IndexError, lambda x: x.put_(T([0, 50]), flambeau.ones(2))),
        (IndexError, lambda x: x.put_(T([5]), flambeau.ones(2))),
        (RuntimeError, lambda x: x.masked_select(flambeau.ones(3, 5).to(flambeau.bool))),
        (RuntimeError, lambda x: x.masked_select(flambeau.ones(4))),
        (RuntimeError, lambda x: flambeau.take_along_dim(x, T([0]), 1)),
    ],
)
def test_errors_come_before_any_write(error, call):
    x = flambeau.arange(12.0).reshape(3, 4)
    with pytest.raises(error):
        call(x)
    same(x, np.arange(12.0).reshape(3, 4))


def test_messages():
    x = flambeau.zeros(3, 4)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        x[T([5])]
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
        x[5]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="shape of the mask"):
        x[T([True, False])]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[T([0, 1, 1], dtype=flambeau.uint8)].shape == (2, 4)
