"""cat, stack and their kin: values against NumPy, layouts, dtypes, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.autograd import gradcheck

A, B, C = (np.arange(6.0).reshape(2, 3) + 10 * k for k in range(3))


def tensors(*arrays):
    return [flambeau.from_numpy(np.array(a)) for a in arrays]


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_cat(dim):
    got = flambeau.cat(tensors(A, B, C), dim)
    np.testing.assert_array_equal(got.numpy(), np.concatenate((A, B, C), dim))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_stack(dim):
    got = flambeau.stack(tensors(A, B, C), dim)
    np.testing.assert_array_equal(got.numpy(), np.stack((A, B, C), dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("size", [3, 130])
def test_strided_and_large_inputs(dim, size):
    a = np.arange(size * 7 * 40, dtype="float32").reshape(size, 7, 40)
    turned = flambeau.from_numpy(np.ascontiguousarray(a.T)).permute(2, 1, 0)
    plain = flambeau.from_numpy(a)
    assert not turned.is_contiguous()
    got = flambeau.cat([turned, plain, turned.narrow(dim, 1, 2)], dim)
    expected = np.concatenate((a, a, np.take(a, (1, 2), axis=dim)), dim)
    np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(flambeau.stack([turned, plain], dim).numpy(), np.stack((a, a), dim))


def test_dtypes_are_promoted():
    got = flambeau.cat([flambeau.tensor([1, 2]), flambeau.tensor([True]), flambeau.tensor([0.5])])
    assert got.dtype == flambeau.float32 and got.tolist() == [1.0, 2.0, 1.0, 0.5]


def test_empty_vectors_are_skipped():
    a = flambeau.ones(2, 3, requires_grad=True)
    nothing = flambeau.empty(0, requires_grad=True)
    got = flambeau.cat([nothing, a, nothing], 1)
    assert got.shape == (2, 3)
    got.sum().backward()
    assert a.grad.tolist() == [[1.0] * 3] * 2
    assert flambeau.cat([nothing, nothing]).shape == (0,)


def test_channels_last_is_kept():
    x = flambeau.rand(2, 3, 4, 5).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    got = flambeau.cat([x, x], 1)
    assert got.stride() == (120, 1, 30, 6) and bool((got == flambeau.cat([x.contiguous()] * 2, 1)).all())


@pytest.mark.parametrize("join", [flambeau.cat, flambeau.stack])
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(join, dim):
    x, y = (flambeau.rand(3, 3, dtype=flambeau.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(lambda a, b: join([a, b, a * b], dim), (x, y))


def test_gradient_through_promotion():
    x, y = flambeau.ones(2, requires_grad=True), flambeau.ones(2, dtype=flambeau.float64, requires_grad=True)
    (flambeau.cat([x, y]) * 3).sum().backward()
    assert x.grad.dtype == flambeau.float32 and x.grad.tolist() == y.grad.tolist() == [3.0, 3.0]


def test_out():
    out = flambeau.empty(0, dtype=flambeau.float64)
    assert flambeau.cat(tensors(A, B), dim=1, out=out) is out and out.shape == (2, 6)
    with pytest.raises(TypeError, match="can't be cast"):
        flambeau.cat(tensors(A, B), out=flambeau.empty(0, dtype=flambeau.int32))


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)])
def test_stacks(name, shape):
    arrays = [np.arange(np.prod(shape)).reshape(shape) + k for k in range(3)]
    got = getattr(flambeau, name)(tensors(*arrays))
    np.testing.assert_array_equal(got.numpy(), getattr(np, name)(arrays))


def test_block_diag():
    got = flambeau.block_diag(flambeau.ones(1, 2), flambeau.tensor(3.0), flambeau.full((2,), 4.0))
    assert got.tolist() == [[1, 1, 0, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 4, 4]]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: flambeau.cat([]), ValueError, "non-empty list"),
        (lambda: flambeau.stack([]), RuntimeError, "non-empty TensorList"),
        (lambda: flambeau.hstack([]), RuntimeError, "hstack expects a non-empty"),
        (lambda: flambeau.cat(flambeau.ones(2)), TypeError, "must be tuple of Tensors"),
        (lambda: flambeau.cat([flambeau.ones(2), 1]), TypeError, "expected Tensor as element 1"),
        (
            lambda: flambeau.cat([flambeau.tensor(1.0)]),
            RuntimeError,
            r"zero-dimensional tensor \(at position 0\)",
        ),
        (
            lambda: flambeau.cat(tensors(A, B[:, :2])),
            RuntimeError,
            "Expected size 3 but got size 2 for tensor number 1",
        ),
        (lambda: flambeau.cat(tensors(A, A[0])), RuntimeError, "same number of dimensions: got 2 and 1"),
        (lambda: flambeau.stack(tensors(A, A[0])), RuntimeError, "equal size"),
        (lambda: flambeau.cat(tensors(A, B), 2), IndexError, "out of range"),
        (lambda: flambeau.cat(tensors(A), wrong=1), TypeError, "unexpected keyword argument 'wrong'"),
        (lambda: flambeau.cat(tensors(A), 0, dim=0), TypeError, "multiple values for argument 'dim'"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("threads", [1, 3, 64])
def test_large_joins_are_shared_out_by_the_result(threads):
    """Units of the result begin and end anywhere in a line, and in any tensor's run."""
    rng, before = np.random.default_rng(threads), flambeau.get_num_threads()
    flambeau.set_num_threads(threads)
    try:
        for _ in range(30):
            rank = int(rng.integers(1, 4))
            axis, sizes = int(rng.integers(rank)), [int(n) for n in rng.integers(1, 60, rank)]
            parts = []
            for _ in range(int(rng.integers(2, 6))):
                sizes[axis] = int(rng.integers(0, 3) * rng.integers(1, 1 + 400_000 // int(np.prod(sizes))))
                parts.append(rng.integers(-100, 100, sizes).astype(np.int16))
                sizes[axis] = 1
            joined = flambeau.cat([flambeau.tensor(p) for p in parts], axis)
            np.testing.assert_array_equal(joined.numpy(), np.concatenate(parts, axis))
            stacked = flambeau.stack([flambeau.tensor(parts[0])] * 3, axis)
            np.testing.assert_array_equal(stacked.numpy(), np.stack([parts[0]] * 3, axis))
    finally:
        flambeau.set_num_threads(before)


def test_runs_with_steps():
    """Parts of larger tensors, whose runs have gaps between them or lie in one place, beside whole ones; long runs beside short ones."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        rank, dtype = (
            int(rng.integers(1, 4)),
            rng.choice(["uint8", "int16", "float32", "float64", "complex128"]),
        )
        dim = int(rng.integers(rank))
        sizes = rng.integers(1, (200_000, 500, 70)[rank - 1], rank)
        parts, arrays = [], []
        for _ in range(int(rng.integers(2, 5))):
            sizes[dim] = rng.integers(0, sizes[dim] + 3)
            gaps = [int(rng.integers(0, 6)) * int(rng.integers(2)) for _ in range(rank)]
            whole = rng.integers(0, 100, [n + gap for n, gap in zip(sizes, gaps)]).astype(dtype)
            cut = tuple(slice(gap // 2, gap // 2 + n) for n, gap in zip(sizes, gaps))
            if rng.integers(8) == 0:
                whole = np.broadcast_to(whole[:1], whole.shape)
                t = flambeau.from_numpy(whole[:1].copy()).expand(whole.shape)
            else:
                t = flambeau.from_numpy(whole)
            parts.append(t[cut])
            arrays.append(whole[cut])
        wanted = np.concatenate(arrays, dim)
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            np.testing.assert_array_equal(flambeau.cat(parts, dim).numpy(), wanted)
            out = flambeau.zeros(wanted.size + 1, dtype=parts[0].dtype)[1:].view(wanted.shape)
            np.testing.assert_array_equal(flambeau.cat(parts, dim, out=out).numpy(), wanted)
        flambeau.set_num_threads(1)
        if rank > 1:
            step = int(rng.integers(1, 20))
            np.testing.assert_array_equal(parts[-1].roll(step, dim).numpy(), np.roll(arrays[-1], step, dim))
