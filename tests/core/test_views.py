"""Views: shapes and values against NumPy, shared memory, gradients of first and second order, writes through views."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import autograd
from flambeau.core.views import views


def numbers(*shape: int) -> np.ndarray:
    return np.arange(float(np.prod(shape))).reshape(shape)


def same(t, expected) -> None:
    assert tuple(t.shape) == np.shape(expected)
    np.testing.assert_array_equal(t.detach().numpy(), expected)


# --- values and memory -----------------------------------------------------------------------------------------
SHAPES = [
    ("view", lambda x: x.view(2, -1), lambda a: a.reshape(2, -1)),
    ("view of a sequence", lambda x: x.view((4, 6)), lambda a: a.reshape(4, 6)),
    ("reshape", lambda x: x.reshape(3, 8), lambda a: a.reshape(3, 8)),
    ("flatten", lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    ("flatten the front", lambda x: x.flatten(0, 1), lambda a: a.reshape(6, 4)),
    ("unflatten", lambda x: x.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    ("transpose", lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    ("permute", lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("movedim", lambda x: x.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    ("movedim of several", lambda x: x.movedim((0, 1), (2, 0)), lambda a: np.moveaxis(a, (0, 1), (2, 0))),
    ("mT", lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    ("unsqueeze", lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    ("squeeze", lambda x: x.unsqueeze(1).unsqueeze(0).squeeze(), lambda a: a),
    ("squeeze of one", lambda x: x[:, None, :, None].squeeze(1), lambda a: a[:, :, None]),
    ("select", lambda x: x.select(1, -1), lambda a: a[:, -1]),
    ("narrow", lambda x: x.narrow(2, 1, 2), lambda a: a[:, :, 1:3]),
    ("diagonal", lambda x: x.diagonal(1, 1, 2), lambda a: a.diagonal(1, 1, 2)),
    ("diagonal below", lambda x: x.diagonal(-1, 0, 2), lambda a: a.diagonal(-1, 0, 2)),
    ("expand", lambda x: x.select(0, 0).expand(5, -1, 4), lambda a: np.broadcast_to(a[0], (5, 3, 4))),
    ("slices", lambda x: x[:, ::2, 1:], lambda a: a[:, ::2, 1:]),
]


@pytest.mark.parametrize("there, numpy", [c[1:] for c in SHAPES], ids=[c[0] for c in SHAPES])
def test_view(there, numpy):
    a = numbers(2, 3, 4)
    x = flambeau.tensor(a.tolist(), dtype=flambeau.float64)
    y = there(x)
    same(y, numpy(a))
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert y._base is x and y._is_view()


@pytest.mark.parametrize("there, numpy", [c[1:] for c in SHAPES], ids=[c[0] for c in SHAPES])
def test_gradients(there, numpy):
    """sum(w·y²) through the view has the gradient 2·w·y where the view looks and 0 elsewhere; then the same once more."""
    a = numbers(2, 3, 4) + 1
    x = flambeau.tensor(a.tolist(), dtype=flambeau.float64, requires_grad=True)
    y = there(x * 1)
    w = flambeau.arange(float(y.numel()), dtype=flambeau.float64).reshape(y.shape)
    (grad,) = autograd.grad((y * y * w).sum(), x, create_graph=True)
    weights = np.zeros(a.size)
    places = numpy(np.arange(a.size).reshape(a.shape)).ravel()
    np.add.at(weights, places, np.arange(float(places.size)))
    weights = weights.reshape(a.shape)
    np.testing.assert_allclose(grad.detach().numpy(), 2 * weights * a)
    (grad * grad).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 8 * weights**2 * a)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_reshape_copies_where_it_must(dtype, order):
    a = np.arange(70 * 3 * 40).reshape(70, 3, 40).astype(dtype)
    x = flambeau.from_numpy(a)
    y = x.permute(order).reshape(-1)
    same(y, a.transpose(order).ravel())
    assert y.is_contiguous() and (y.data_ptr() == x.data_ptr()) == (order == (0, 1, 2))


def test_large_copies_are_the_same_on_any_number_of_threads():
    a = np.random.default_rng(0).normal(size=(513, 1027)).astype(np.float32)
    x = flambeau.from_numpy(a)
    before = flambeau.get_num_threads()
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            same(x.t().reshape(-1), a.T.ravel())
            same(x[:, ::2].reshape(-1), a[:, ::2].ravel())
    finally:
        flambeau.set_num_threads(before)


def test_view_needs_fitting_strides():
    x = flambeau.zeros(4, 4)
    assert x[:, :2].view(4, 1, 2).shape == (4, 1, 2)
    assert x[:2].t().view(2, 2, 2).stride() == (2, 1, 4)
    with pytest.raises(RuntimeError, match="not compatible"):
        x.t().view(16)
    with pytest.raises(RuntimeError, match=r"shape '\[3, 5\]' is invalid for input of size 16"):
        x.view(3, 5)


def test_view_as_dtype():
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = flambeau.from_numpy(a)
    same(x.view(flambeau.float32), a.view(np.float32))
    same(x.view(flambeau.int64), a.view(np.int64))
    same(x.view(flambeau.int8), a.view(np.int8))
    same(x[1:].view(flambeau.int16), a[1:].view(np.int16))
    assert x.view(flambeau.uint8).view(flambeau.int32).tolist() == a.tolist()
    with pytest.raises(RuntimeError, match="must be 1 to view"):
        x.t().view(flambeau.int8)
    with pytest.raises(RuntimeError, match="divisible"):
        x[:, 1:].view(flambeau.int64)


def test_complex_numbers_as_pairs():
    a = (np.arange(6) + 1j * np.arange(6, 12)).reshape(2, 3).astype(np.complex64)
    x = flambeau.from_numpy(a)
    pairs = views.view_as_real(x.t())
    same(pairs, np.stack([a.T.real, a.T.imag], -1))
    same(views.view_as_complex(pairs), a.T)
    pairs = flambeau.arange(12.0).reshape(3, 2, 2).requires_grad_()
    weights = np.array([[1 + 2j, 3j], [1, 2], [0, -1j]], np.complex64)
    (grad,) = autograd.grad(views.view_as_complex(pairs), pairs, flambeau.from_numpy(weights))
    same(grad, np.stack([weights.real, weights.imag], -1))
    for bad in (pairs[..., 0], pairs.permute(2, 1, 0), x, pairs.view(-1)[1:].as_strided((3, 2), (3, 1))):
        with pytest.raises(RuntimeError):
            views.view_as_complex(bad)


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 9])
def test_split_chunk_and_tensor_split(pieces):
    a = numbers(7, 2)
    x = flambeau.tensor(a.tolist(), dtype=flambeau.float64)
    for got, expected in zip(x.tensor_split(pieces), np.array_split(a, pieces), strict=True):
        same(got, expected)
    for k, got in enumerate(x.split(pieces)):
        same(got, a[k * pieces : (k + 1) * pieces])
    assert sum(len(p) for p in x.chunk(pieces)) == 7 and len(x.chunk(pieces)) <= pieces
    for got, expected in zip(x.tensor_split([2, pieces]), np.split(a, [2, pieces]), strict=True):
        same(got, expected)


def test_pieces_give_back_one_gradient():
    x = flambeau.arange(6.0, dtype=flambeau.float64).reshape(3, 2).requires_grad_()
    a, b, c = (x * 1).unbind()
    (grad,) = autograd.grad((a * a).sum() + (3 * c * c).sum(), x, create_graph=True)
    same(grad, 2 * numbers(3, 2) * [[1], [0], [3]])
    grad.sum().backward()
    same(x.grad, np.array([[2, 2], [0, 0], [6, 6]]))
    first, last = (x * 1).split([1, 2])
    assert first.grad_fn is last.grad_fn and last.output_nr == 1
    (grad,) = autograd.grad((last * 5).sum(), x)
    same(grad, [[0, 0], [5, 5], [5, 5]])


def test_hsplit_vsplit_dsplit_and_atleast():
    a = numbers(2, 4, 6)
    x = flambeau.tensor(a.tolist(), dtype=flambeau.float64)
    for ours, theirs in (
        (x.hsplit(2), np.hsplit(a, 2)),
        (x.vsplit(2), np.vsplit(a, 2)),
        (x.dsplit([1, 3]), np.dsplit(a, [1, 3])),
    ):
        for got, expected in zip(ours, theirs, strict=True):
            same(got, expected)
    for t in (x[0, 0, 0], x[0, 0], x[0], x):
        n = t.numpy()
        same(flambeau.atleast_1d(t), np.atleast_1d(n))
        same(flambeau.atleast_2d(t), np.atleast_2d(n))
        same(flambeau.atleast_3d(t), np.atleast_3d(n))
    assert isinstance(flambeau.atleast_2d(x, x[0, 0]), tuple)
    with pytest.raises(RuntimeError, match="not divisible"):
        x.hsplit(3)


# --- overlapping views ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_unfold_adds_up_overlaps(dtype):
    x = flambeau.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], dtype=getattr(flambeau, dtype), requires_grad=True)
    y = x.unfold(0, 3, 1)
    same(y, np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3))
    (grad,) = autograd.grad(y, x, flambeau.ones(4, 3, dtype=x.dtype))
    assert grad.tolist() == [1, 2, 3, 3, 2, 1] and grad.dtype == x.dtype


def test_as_strided_gradients():
    x = flambeau.arange(6.0, dtype=flambeau.float64, requires_grad=True)
    y = (x * 1).as_strided((3, 2), (1, 2), 1)
    same(y, [[1, 3], [2, 4], [3, 5]])
    (grad,) = autograd.grad((y * y).sum(), x, create_graph=True)
    same(grad, [0, 2, 4, 12, 8, 10])
    grad.sum().backward()
    same(x.grad, [0, 2, 2, 4, 2, 2])
    # from a tensor with gaps, and from one that repeats its elements
    x.grad = None
    (x * 1)[::2].as_strided((2,), (2,), 2).sum().backward()
    same(x.grad, [0, 0, 1, 0, 1, 0])
    z = flambeau.ones(1, dtype=flambeau.float64, requires_grad=True)
    (z * 1).expand(3).as_strided((1,), (1,), 0).sum().backward()
    same(z.grad, [1])


def test_as_strided_stays_inside_the_storage():
    x = flambeau.zeros(16)
    for size, stride, offset in (
        ((5, 5), (4, 1), 0),
        ((1,), (1,), 16),
        ((2,), (2**62,), 0),
        ((2**40, 2**40), (1, 1), 0),
    ):
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.as_strided(size, stride, offset)
    for size, stride, offset in (((2,), (-1,), 5), ((-2,), (1,), 0), ((2,), (1,), -1), ((2,), (1, 1), 0)):
        with pytest.raises(RuntimeError):
            x.as_strided(size, stride, offset)
    assert x.as_strided((0, 5), (100, 100), 16).shape == (0, 5)


# --- writing through views ------------------------------------------------------------------------------------------
def test_a_write_to_a_view_is_seen_by_its_base_and_its_other_views():
    x = flambeau.ones(3, 2, dtype=flambeau.float64, requires_grad=True)
    z = x * 2
    row, column = z[1], z[:, 1]
    row.mul_(5)
    same(z, [[2, 2], [10, 10], [2, 2]])
    same(column, [2, 10, 2])
    assert z.grad_fn.name() == "CopySlices" and "AsStrided" in column.grad_fn.name()
    (column * flambeau.tensor([1.0, 2.0, 3.0], dtype=flambeau.float64)).sum().backward(retain_graph=True)
    same(x.grad, [[0, 2], [0, 20], [0, 6]])
    x.grad = None
    row.sum().backward(retain_graph=True)
    same(x.grad, [[0, 0], [10, 10], [0, 0]])
    x.grad = None
    z.sum().backward()
    same(x.grad, [[2, 2], [10, 10], [2, 2]])


def test_a_write_to_the_base_is_seen_by_its_views():
    x = flambeau.ones(4, dtype=flambeau.float64, requires_grad=True)
    z = x * 1
    part = z[1:3].unsqueeze(0)
    z.mul_(flambeau.tensor([1.0, 2.0, 3.0, 4.0], dtype=flambeau.float64))
    same(part, [[2, 3]])
    part.sum().backward()
    same(x.grad, [0, 2, 3, 0])


def test_a_write_of_a_taped_value_into_a_plain_tensor():
    x = flambeau.ones(2, dtype=flambeau.float64, requires_grad=True)
    buffer = flambeau.zeros(2, 2, dtype=flambeau.float64)
    buffer[0].copy_(x * 3)
    buffer[1].add_(x)
    assert buffer.requires_grad
    (buffer * flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=flambeau.float64)).sum().backward()
    same(x.grad, [6, 10])


def test_views_of_leaves_are_not_written():
    x = flambeau.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0].mul_(2)
    with pytest.raises(RuntimeError, match="leaf"):
        x.t_()
    with flambeau.no_grad():
        x[0].mul_(2)
    assert x.tolist() == [[2, 2], [1, 1]]


def test_a_saved_tensor_changed_through_a_view_is_noticed():
    x = flambeau.ones(2, requires_grad=True)
    y = x * 2
    z = y * y
    y[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# --- in place, geometry -----------------------------------------------------------------------------------------------
def test_in_place_shapes():
    x = flambeau.arange(6.0).reshape(2, 3)
    assert x.t_() is x and x.shape == (3, 2) and x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_().shape == (3, 2)
    assert x.transpose_(0, 1).is_contiguous()
    leaf = flambeau.ones(2, 3, requires_grad=True)
    y = (leaf * flambeau.arange(6.0).reshape(2, 3)).t_()
    assert y.shape == (3, 2)
    (y * flambeau.arange(6.0).reshape(3, 2)).sum().backward()
    same(leaf.grad, numbers(2, 3) * numbers(3, 2).T)


def test_detach():
    x = flambeau.ones(2, requires_grad=True)
    y = x * 2
    d = y.detach()
    assert not d.requires_grad and d.is_leaf and d._base is None and d.data_ptr() == y.data_ptr()
    y.detach_()
    assert not y.requires_grad and y.grad_fn is None
    with pytest.raises(RuntimeError, match="views"):
        (x * 2)[0].detach_()


def test_resize():
    x = flambeau.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(3, 4).shape == (3, 4) and x.flatten()[:4].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="negative"):
        x.resize_(-1)
    with pytest.raises(RuntimeError, match="require grad"):
        flambeau.ones(2, requires_grad=True).resize_(4)


def test_set():
    x, y = flambeau.arange(12.0), flambeau.zeros(2)
    y.set_(x)
    assert y.data_ptr() == x.data_ptr() and y.shape == (12,)
    y.set_(x.untyped_storage(), 1, (2, 3), (6, 2))
    assert y.tolist() == [[1, 3, 5], [7, 9, 11]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        y.set_(x.untyped_storage(), 0, (13,), (1,))
    assert y.set_().numel() == 0


def test_transposes():
    x = flambeau.arange(6.0).reshape(2, 3)
    same(x.T, numbers(2, 3).T)
    same(x.H, numbers(2, 3).T)
    assert x[0].t().shape == (3,)
    with pytest.warns(UserWarning, match="deprecated"):
        assert x.unsqueeze(0).T.shape == (3, 2, 1)
    for bad in (
        lambda: x[0].mT,
        lambda: x[0].H,
        lambda: x.unsqueeze(0).H,
        lambda: x.unsqueeze(0).t(),
        lambda: x[0].mH,
    ):
        with pytest.raises(RuntimeError):
            bad()


# --- errors ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "error, call",
    [
        (RuntimeError, lambda x: x.view(-1, -1)),
        (RuntimeError, lambda x: x.view(-2, 8)),
        (RuntimeError, lambda x: x.view(-1, 3)),
        (RuntimeError, lambda x: x[:0].view(-1, 0)),
        (TypeError, lambda x: x.view()),
        (TypeError, lambda x: x.view(2.0, 8)),
        (IndexError, lambda x: x.transpose(0, 2)),
        (RuntimeError, lambda x: x.permute(0)),
        (RuntimeError, lambda x: x.permute(0, 0)),
        (IndexError, lambda x: x.permute(0, 5)),
        (RuntimeError, lambda x: x.expand(3, 4)),
        (RuntimeError, lambda x: x.expand(4)),
        (RuntimeError, lambda x: x.expand(-1, 4, 4)),
        (RuntimeError, lambda x: x.narrow(0, 3, 2)),
        (IndexError, lambda x: x.narrow(0, 5, 0)),
        (RuntimeError, lambda x: x.narrow(0, 0, -1)),
        (IndexError, lambda x: x.select(0, 4)),
        (IndexError, lambda x: x.unsqueeze(4)),
        (TypeError, lambda x: x.unsqueeze(1.0)),
        (IndexError, lambda x: x.squeeze(3)),
        (RuntimeError, lambda x: x.squeeze((0, 0))),
        (RuntimeError, lambda x: x.split(0)),
        (RuntimeError, lambda x: x.split(-1)),
        (RuntimeError, lambda x: x.split([1, 2])),
        (RuntimeError, lambda x: x.split([5, -1])),
        (RuntimeError, lambda x: x.chunk(0)),
        (RuntimeError, lambda x: x.tensor_split(0)),
        (IndexError, lambda x: x.unbind(2)),
        (RuntimeError, lambda x: x.diagonal(0, 0, 0)),
        (IndexError, lambda x: x[0].diagonal()),
        (RuntimeError, lambda x: x.unfold(0, 5, 1)),
        (RuntimeError, lambda x: x.unfold(0, 2, 0)),
        (RuntimeError, lambda x: x.unflatten(0, (3, 2))),
        (RuntimeError, lambda x: x.unflatten(0, ())),
        (RuntimeError, lambda x: x.flatten(1, 0)),
        (RuntimeError, lambda x: x.movedim((0, 1), (0,))),
        (RuntimeError, lambda x: x.movedim((0, 0), (0, 1))),
        (RuntimeError, lambda x: x.broadcast_to((3, 3))),
        (RuntimeError, lambda x: x[0].vsplit(2)),
        (RuntimeError, lambda x: x.dsplit(2)),
    ],
)
def test_errors(error, call):
    x = flambeau.zeros(4, 4)
    with pytest.raises(error):
        call(x)


def test_channels_last():
    x = flambeau.zeros(2, 5, 3, 4)
    y = flambeau.zeros(2, 3, 4, 5).permute(0, 3, 1, 2)
    assert x.is_contiguous() and not y.is_contiguous()
    last = flambeau.channels_last
    assert not x.is_contiguous(memory_format=last) and y.is_contiguous(memory_format=last)
    with pytest.raises(TypeError, match="must be flambeau.memory_format, not str"):
        x.is_contiguous(memory_format="channels_last")


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("view", (3, 2)),
        ("reshape", (3, 2)),
        ("expand", (4, 2, 3)),
        ("broadcast_to", (4, 2, 3)),
        ("repeat", (2, 2)),
        ("tile", (2, 2)),
        ("permute", (1, 0)),
        ("flip", (0, 1)),
        ("sum_to_size", (1, 3)),
        ("new_zeros", (3, 2)),
        ("new_ones", (3, 2)),
    ],
)
def test_methods_of_sizes_take_them_one_by_one_or_together(name, sizes):
    x = flambeau.arange(6.0).reshape(2, 3)
    found = [getattr(x, name)(*sizes), getattr(x, name)(sizes), getattr(x, name)(list(sizes))]
    for y in found[1:]:
        assert y.shape == found[0].shape and flambeau.equal(y, found[0])
