"""Bags of rows read by one kernel, against NumPy, and against the same made of operations on rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import flambeau
from flambeau.codegen.tiles import kernels
from flambeau.nn import functional as F
from flambeau.operations.neural.embedding import bags

MODES = ("sum", "mean", "max")


def expected(table, numbers, starts, mode, factors=None, padding=None):
    """What each bag holds, bag by bag."""
    found = np.zeros((len(starts) - 1, table.shape[1]))
    for k, (begin, end) in enumerate(zip(starts, starts[1:])):
        kept = [n for n in range(begin, end) if numbers[n] != padding]
        rows = table[numbers[kept]]
        rows = rows if factors is None else rows * factors[kept, None]
        if len(kept):
            found[k] = {"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0)
    return found


def draw(rng, columns):
    rows, bags_, count = (int(n) for n in rng.integers(1, (12, 9, 40)))
    starts = np.sort(np.concatenate([[0], rng.integers(0, count + 1, bags_ - 1)]))
    numbers = rng.integers(0, rows, count)
    padding = int(rng.integers(0, rows)) if rng.random() < 0.5 else None
    return rng.standard_normal((rows, columns)), numbers, np.append(starts, count), padding


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("columns", [1, 7, 16, 129, 200])
def test_bags_of_any_shape(mode, columns):
    rng = np.random.default_rng(columns + len(mode))
    for turn in range(8):
        table, numbers, starts, padding = draw(rng, columns)
        index = numbers.astype(("int32", "int64")[turn % 2])
        factors = rng.standard_normal(len(numbers)) if mode == "sum" and turn % 3 else None
        more = {} if factors is None else {"per_sample_weights": flambeau.tensor(factors)}
        last = turn % 4 == 3
        offsets = starts if last else starts[:-1]
        found = F.embedding_bag(
            flambeau.tensor(index), flambeau.tensor(table), flambeau.tensor(offsets.astype(index.dtype)),
            mode=mode, padding_idx=padding, include_last_offset=last, **more,
        )  # fmt: skip
        wanted = expected(table, numbers, starts, mode, factors, padding)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-13)


def gradients(function, given):
    for x in given:
        x.grad = None
    found = function(*given)
    (found * flambeau.linspace(-1, 2, found.numel(), dtype=found.dtype).reshape(found.shape)).sum().backward()
    return [found.detach(), *(x.grad for x in given)]


def bag_of(numbers, offsets, mode, padding, table, scale=None):
    return F.embedding_bag(numbers, table, offsets, mode=mode, padding_idx=padding, per_sample_weights=scale)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [flambeau.float64, flambeau.float32, flambeau.bfloat16])
def test_kernels_do_what_operations_on_rows_do(mode, dtype, monkeypatch):
    rng = np.random.default_rng(len(mode))
    for turn in range(6):
        table, numbers, starts, padding = draw(rng, 35)
        weighted = mode == "sum" and turn % 2
        given = [flambeau.tensor(table).to(dtype).requires_grad_()]
        if weighted:
            given.append(flambeau.tensor(rng.random(len(numbers))).to(dtype).requires_grad_())

        bag = functools.partial(bag_of, flambeau.tensor(numbers), flambeau.tensor(starts[:-1]), mode, padding)
        found = gradients(bag, given)
        with monkeypatch.context() as patched:
            patched.setattr(bags, "_on_host", lambda *_: False)
            wanted = gradients(bag, given)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype == dtype and a.shape == b.shape
            tolerance = 20 * flambeau.finfo(dtype).eps
            np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bytes_", [16, 32])
def test_bags_in_other_processors_registers(mode, bytes_, monkeypatch):
    monkeypatch.setattr(kernels, "registers", lambda: kernels.Shape(bytes_, 16))
    bags._kernel.cache_clear()
    try:
        rng = np.random.default_rng(bytes_)
        for columns in (3, 40):
            table, numbers, starts, padding = draw(rng, columns)
            given = flambeau.tensor(table, requires_grad=True)
            found = F.embedding_bag(
                flambeau.tensor(numbers), given, flambeau.tensor(starts[:-1]), mode=mode, padding_idx=padding
            )
            np.testing.assert_allclose(
                found.detach().numpy(), expected(table, numbers, starts, mode, None, padding), rtol=1e-12
            )
            found.sum().backward()
            inside = sum(any(numbers[n] != padding for n in range(*b)) for b in zip(starts, starts[1:]))
            counted = sum(numbers[: starts[-1]] != padding) if mode == "sum" else inside
            assert float(given.grad.sum()) == pytest.approx(counted * columns)
    finally:
        bags._kernel.cache_clear()


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_second_order(mode):
    flambeau.manual_seed(0)
    table = flambeau.randn(5, 3, dtype=flambeau.float64, requires_grad=True)
    numbers, offsets = flambeau.tensor([0, 3, 3, 1, 4, 2]), flambeau.tensor([0, 2, 2])
    bag = functools.partial(F.embedding_bag, mode=mode, padding_idx=4)
    assert flambeau.autograd.gradcheck(lambda w: bag(numbers, w, offsets), (table,))
    assert flambeau.autograd.gradgradcheck(lambda w: bag(numbers, w, offsets).square(), (table,))
    if mode == "sum":
        scale = flambeau.randn(6, dtype=flambeau.float64, requires_grad=True)
        weighted = lambda w, s: bag(numbers, w, offsets, per_sample_weights=s)  # noqa: E731
        assert flambeau.autograd.gradcheck(weighted, (table, scale))
        assert flambeau.autograd.gradgradcheck(weighted, (table, scale))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_gradient_lists_the_rows_of_bags(mode, weighted):
    numbers, offsets = flambeau.tensor([3, 0, 3, 2, 1, 1]), flambeau.tensor([0, 2, 2])
    scale = flambeau.rand(6, dtype=flambeau.float64) if weighted and mode == "sum" else None
    found = []
    for sparse in (False, True):
        table = flambeau.arange(15.0, dtype=flambeau.float64).reshape(5, 3).requires_grad_()
        bag = F.embedding_bag(
            numbers, table, offsets, mode=mode, padding_idx=1, sparse=sparse, per_sample_weights=scale
        )
        bag.backward(flambeau.arange(9.0, dtype=flambeau.float64).reshape(3, 3))
        assert table.grad.is_sparse == sparse
        found.append(table.grad.to_dense().numpy() if sparse else table.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-14)
    assert table.grad.coalesce().indices().numpy().tolist() == [[0, 2, 3]]


@pytest.mark.parametrize("mode", MODES)
def test_bits_do_not_depend_on_threads(mode):
    table = flambeau.randn(50, 300, requires_grad=True)
    numbers, offsets = flambeau.randint(0, 50, (4000,)), flambeau.arange(0, 4000, 40)
    before, seen = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            flambeau.set_num_threads(threads)
            seen.append(gradients(lambda w: F.embedding_bag(numbers, w, offsets, mode=mode), [table]))
    finally:
        flambeau.set_num_threads(before)
    for found in seen[1:]:
        for a, b in zip(found, seen[0], strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_first_of_equals_gets_the_gradient_and_nan_is_largest():
    table = flambeau.tensor(
        [[1.0, 5.0], [1.0, float("nan")], [0.0, -float("inf")], [0.0, -float("inf")]], requires_grad=True
    )
    found = F.embedding_bag(flambeau.tensor([[0, 1], [2, 3]]), table, mode="max")
    np.testing.assert_array_equal(found.detach().numpy(), [[1.0, np.nan], [0.0, -np.inf]])
    found.backward(flambeau.ones(2, 2))
    np.testing.assert_array_equal(table.grad.numpy(), [[1, 0], [0, 1], [1, 1], [0, 0]])


def test_a_table_may_be_written_between_the_passes_and_may_be_a_view():
    whole = flambeau.arange(12.0).reshape(4, 3)
    numbers = flambeau.tensor([[0, 2]])
    for table in (whole.t(), whole[:, ::2], whole[::2]):
        rows = flambeau.tensor([[0, 1]])
        np.testing.assert_array_equal(
            F.embedding_bag(rows, table, mode="sum").numpy(), table.numpy()[:2].sum(0)[None]
        )
    table = whole.clone().requires_grad_()
    found = F.embedding_bag(numbers, table, mode="mean")
    with flambeau.no_grad():
        table.mul_(2)
    found.sum().backward()
    np.testing.assert_array_equal(table.grad.numpy()[:, 0], [0.5, 0, 0.5, 0])


@pytest.mark.parametrize("mode", MODES)
def test_what_lies_outside_is_refused(mode):
    table = flambeau.zeros(5, 3)
    for number in (5, -1, 2**40):
        with pytest.raises(RuntimeError, match=f"rows are 0 to 4, but found {number}"):
            F.embedding_bag(flambeau.tensor([0, number]), table, flambeau.tensor([0]), mode=mode)
    for offsets, told in (
        ([1, 2], "has to be 0"),
        ([0, 2, 1], "must not decrease"),
        ([0, 9], "can not be greater"),
    ):
        with pytest.raises(RuntimeError, match=told):
            F.embedding_bag(flambeau.tensor([0, 1, 2]), table, flambeau.tensor(offsets), mode=mode)
    with pytest.raises(RuntimeError, match="at least 1"):
        F.embedding_bag(
            flambeau.tensor([0]),
            table,
            flambeau.tensor([], dtype=flambeau.int64),
            mode=mode,
            include_last_offset=True,
        )


@pytest.mark.parametrize("mode", MODES)
def test_bags_of_nothing(mode):
    none = flambeau.tensor([], dtype=flambeau.int64)
    for table in (flambeau.ones(5, 3), flambeau.ones(5, 0), flambeau.ones(0, 3)):
        columns = table.shape[1]
        assert F.embedding_bag(none, table, flambeau.tensor([0, 0]), mode=mode).eq(0).all()
        assert F.embedding_bag(none, table, none, mode=mode).shape == (0, columns)
        assert F.embedding_bag(none.reshape(4, 0), table, mode=mode).shape == (4, columns)
        assert F.embedding_bag(none.reshape(0, 4), table, mode=mode).shape == (0, columns)


@pytest.mark.parametrize("options", range(8))
def test_numbers_of_32_bits_do_what_those_of_64_do(options):
    """With each choice of `max_norm`, `scale_grad_by_freq` and `sparse`, for single rows and for bags."""
    numbers = [[0, 2, 3], [2, 2, 5]]
    flags = {"max_norm": 0.5, "scale_grad_by_freq": True, "sparse": True}
    flags = {name: value for k, (name, value) in enumerate(flags.items()) if options >> k & 1}
    for mode in (None, "sum", "mean", *(() if "sparse" in flags else ("max",))):
        results = []
        for dtype in (flambeau.int32, flambeau.int64):
            flambeau.manual_seed(0)
            table = flambeau.randn(6, 3, requires_grad=True)
            run = F.embedding if mode is None else functools.partial(F.embedding_bag, mode=mode)
            found = run(flambeau.tensor(numbers, dtype=dtype), table, **flags)
            found.sin().sum().backward()
            results.append([found.tolist(), table.tolist(), table.grad.to_dense().tolist()])
        assert results[0] == results[1], (mode, flags)


def test_factors_have_the_dtype_of_the_table():
    numbers = flambeau.tensor([[0, 1]])
    with pytest.raises(RuntimeError, match="per_sample_weights of the dtype of weight"):
        F.embedding_bag(
            numbers, flambeau.ones(2, 3), mode="sum", per_sample_weights=flambeau.ones(1, 2).double()
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.bfloat16], ids=str)
def test_all_numbers_shorten_rows(mode, dtype):
    """Those of the padding and behind the last offset, too, which are in no bag; rows that no number names stay as long."""
    numbers, starts = flambeau.tensor([0, 2, 3, 1]), flambeau.tensor([0, 1, 3])
    for padding in (None, 2):
        table = flambeau.full((5, 4), 3.0, dtype=dtype, requires_grad=True)
        found = F.embedding_bag(
            numbers, table, starts, max_norm=1.0, mode=mode, padding_idx=padding, include_last_offset=True
        )
        lengths = table.detach().float().norm(dim=1)
        assert (lengths[:4] <= 1.01).all() and lengths[4] == 6
        short = table.detach().clone()
        assert found.equal(
            F.embedding_bag(numbers, short, starts, mode=mode, padding_idx=padding, include_last_offset=True)
        )
        found.sum().backward()
        assert table.grad[:1].any() and not table.grad[[1, 4]].any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_bags_of_nothing_have_gradients(mode, max_norm):
    for numbers in ([], [1, 1]):
        table = flambeau.ones(3, 2, requires_grad=True)
        given = flambeau.tensor(numbers, dtype=flambeau.int64)
        found = F.embedding_bag(
            given, table, flambeau.tensor([0, 0]), max_norm=max_norm, mode=mode, padding_idx=1
        )
        found.sum().backward()
        assert not found.any() and not table.grad.any()
