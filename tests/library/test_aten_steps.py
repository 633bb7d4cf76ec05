"""ATen's steps: what they compute beside NumPy, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F
from flambeau.profiler import profile

aten = torch.ops.aten


def array(*shape, dtype=np.float64):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_copies_and_views():
    x = torch.tensor(array(3, 4), requires_grad=True)
    copied = aten._to_copy(x, dtype=torch.float32)
    assert copied.dtype is torch.float32 and aten._to_copy.default(x) is not x
    copied.sum().backward()
    assert x.grad.dtype is torch.float64 and bool((x.grad == 1).all())
    with pytest.raises(NotImplementedError, match="layout"):
        aten._to_copy(x, layout=torch.sparse_coo)
    plain = x.detach()
    for view in (
        aten.alias(plain),
        aten.lift_fresh(plain),
        aten._unsafe_view(plain, [4, 3]),
        aten.slice(plain, 0, 0, 3),
    ):
        assert view.data_ptr() == plain.data_ptr()
    assert aten.copy(plain, torch.ones(4, dtype=torch.float64)).tolist() == np.ones((3, 4)).tolist()
    assert torch.autograd.gradcheck(lambda t: aten.slice.Tensor(t, -1, 1, 9223372036854775807, 2), x)
    assert np.array_equal(aten.slice.Tensor(plain, 1, -3, -1).numpy(), array(3, 4)[:, -3:-1])
    assert np.array_equal(aten.slice_backward(plain, [3, 8], 1, 0, 8, 2)[:, ::2].numpy(), array(3, 4))
    assert np.array_equal(aten.select_backward(plain, [3, 2, 4], 1, 1)[:, 1].numpy(), array(3, 4))


def test_places():
    x = torch.tensor(array(3, 4))
    result = aten.index.Tensor(x, [None, torch.tensor([2, 0])])
    assert np.array_equal(result.numpy(), array(3, 4)[:, [2, 0]])
    assert (
        aten.sym_size.int(x, -1) == 4
        and list(aten.sym_size(x)) == [3, 4]
        and list(aten.sym_stride(x)) == [4, 1]
    )
    assert aten.sym_numel(x) == 12 and aten.sym_storage_offset(x[1]) == 4
    assert aten._local_scalar_dense(torch.tensor(2.5)) == 2.5


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (1, 1)])
def test_softmax_and_its_gradient(shape):
    x = torch.tensor(array(*shape), requires_grad=True)
    weights = torch.tensor(array(*shape)[::-1].copy())
    for name in ("_softmax", "_log_softmax"):
        y = getattr(aten, name)(x, 1, False)
        (expected,) = torch.autograd.grad(y, x, weights)
        actual = getattr(aten, f"{name}_backward_data")(weights, y, 1, torch.float64)
        assert torch.allclose(actual, expected)
        with pytest.raises(RuntimeError, match="half to float"):
            getattr(aten, name)(x, 1, True)


def test_gradients_of_activations():
    x = torch.tensor(array(7), requires_grad=True)
    for y, actual in (
        (x.tanh(), lambda y: aten.tanh_backward(torch.ones_like(y), y)),
        (x.sigmoid(), lambda y: aten.sigmoid_backward(torch.ones_like(y), y)),
        (x.relu(), lambda y: aten.threshold_backward(torch.ones_like(y), x, 0)),
    ):
        (expected,) = torch.autograd.grad(y.sum(), x)
        assert torch.allclose(actual(y), expected)


def test_transforms_beside_numpy():
    x, z = array(3, 4), array(3, 4) + 1j * array(4, 3).T
    for norm, name in enumerate(("backward", "ortho", "forward")):
        assert np.allclose(
            aten._fft_c2c(torch.tensor(z), [0, 1], norm, True).numpy(), np.fft.fftn(z, axes=(0, 1), norm=name)
        )
        other = ("forward", "ortho", "backward")[norm]
        assert np.allclose(
            aten._fft_c2c(torch.tensor(z), [1], norm, False).numpy(), np.fft.ifft(z, axis=1, norm=other)
        )
        assert np.allclose(
            aten._fft_r2c(torch.tensor(x), [0, 1], norm, True).numpy(),
            np.fft.rfftn(x, axes=(0, 1), norm=name),
        )
        half = np.fft.rfft(x, axis=0)
        assert np.allclose(
            aten._fft_c2r(torch.tensor(half), [0], norm, 3).numpy(), np.fft.irfft(half, 3, axis=0, norm=other)
        )


def test_products():
    a, b = array(3, 3) * (array(3, 3) > 0), array(3, 2)
    sparse = torch.tensor(a).to_sparse_csr()
    assert np.allclose(aten._sparse_mm_reduce_impl(sparse, torch.tensor(b), "sum")[0].numpy(), a @ b)
    actual = aten._sparse_addmm(
        torch.tensor(b), torch.tensor(a).to_sparse(), torch.tensor(b), beta=2, alpha=3
    )
    assert np.allclose(actual.numpy(), 2 * b + 3 * (a @ b))
    x, w = torch.tensor(array(1, 2, 4, 4)), torch.tensor(array(3, 2, 2, 2))
    expected = torch.nn.functional.conv2d(x, w, stride=2, padding=1)
    rest = ([2, 2], [1, 1], [1, 1], False, [0, 0], 1, False, False, True)
    assert torch.equal(aten._convolution.deprecated(x, w, None, *rest), expected)
    assert torch.equal(aten._convolution(x, w, None, *rest, True), expected)


def test_checks():
    x = torch.ones(2, 3)
    aten._assert_tensor_metadata(x, [2, 3], [3, 1], torch.float32, device=x.device, layout=torch.strided)
    aten._assert_async(torch.tensor(1))
    aten._assert_scalar(1, "fine")
    aten.sym_constrain_range_for_size(4, min=2, max=8)
    for call, said in (
        (lambda: aten._assert_tensor_metadata(x, [2, 2]), "sizes mismatch"),
        (lambda: aten._assert_tensor_metadata(x, dtype=torch.int64), "dtype mismatch"),
        (lambda: aten._assert_async.msg(torch.tensor(0), "why"), "why"),
        (lambda: aten._assert_scalar(0, "why"), "why"),
        (lambda: aten.sym_constrain_range_for_size(9, max=8), "Invalid value range"),
    ):
        with pytest.raises(RuntimeError, match=said):
            call()
    assert bool(aten._is_all_true(x.bool())) and not bool(aten._is_any_true(~x.bool()))


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError, match="no operation aten::_grouped_mm is defined.*docs/operations.md"):
        aten._grouped_mm  # noqa: B018


def test_operations_that_aten_calls_otherwise():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    columns = aten.im2col.default(x, [2, 2], [1, 1], [0, 0], [2, 2])
    assert columns.equal(F.unfold(x, 2, stride=2))
    assert aten.col2im.default(columns, [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]).equal(x)
    maxima, places = aten.adaptive_max_pool2d.default(x, [1, 1])
    assert maxima.item() == 15.0 and places.item() == 15
    assert aten.div.Tensor(x, 2).equal(x / 2)
    with profile() as prof:
        F.unfold(x, 2)
        x[0, 0].mT.T  # noqa: B018
    tops = [e.name for e in prof.events() if e.cpu_parent is None]
    assert tops == ["aten::im2col", "aten::index", "aten::mT", "aten::numpy_T"]
