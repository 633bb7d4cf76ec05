"""Tables of taps: as matrices, beside the ways that do without them, on processors with and without permutations, by any threads."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fb
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.core.base.callbacks import callbacks
from flambeau.core.lib.resampling import taps as core
from flambeau.operations.declare import taps

F = fb.nn.functional
SIZES = [1, 5, 16, 33, 70]


@pytest.fixture(params=["permutations", "plain"])
def processor(request, monkeypatch):
    """Both ways along a line: by the processor's own, and by that of processors without permutations."""
    if request.param == "plain":
        monkeypatch.setitem(callbacks, "taps.permutes", lambda width: False)


def tables(rng, size):
    """A table of every rule, for a size and some random one."""
    out = int(rng.integers(1, 2 * size + 4))
    kernel, stride = int(rng.integers(1, min(size, 5) + 1)), int(rng.integers(1, 4))
    padding = int(rng.integers(0, kernel // 2 + 1))
    count = (size + 2 * padding - kernel) // stride + 1
    before, after = (int(n) for n in rng.integers(0, size, 2))
    yield core.nearest(size, out, size / out, False)
    yield core.nearest(size, out, size / out, True)
    yield core.linear(size, out, size / out, False)
    yield core.linear(size, out, size / out, True)
    yield core.cubic(size, out, size / out, False)
    yield core.widened(size, out, size / out, False, False)
    yield core.widened(size, out, size / out, False, True)
    yield core.parts(size, out)
    yield core.windows(size, count, kernel, stride, padding, True, True)
    yield core.windows(size, count, kernel, stride, padding, False, True)
    for mode in ("reflect", "replicate", "circular"):
        yield core.extended(size, before, after, mode)


def matrix(table):
    found = np.zeros((table.out, table.size))
    for j, row in enumerate(table.rows_of()):
        for at, weight in row:
            found[j, at] += weight
    return found


def by_matrices(x, dim, first, second):
    found = x.astype(np.float64)
    for axis, table in ((dim, first), (dim + 1, second)):
        if table is not None:
            found = np.moveaxis(np.tensordot(matrix(table), np.moveaxis(found, axis, 0), 1), 0, axis)
    return found


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_by_tables_are_products_with_matrices(dtype, inner, processor):
    rng = np.random.default_rng(inner)
    for size in SIZES:
        for table in tables(rng, size):
            for second in (table, table.turned()):
                first = core.linear(6, 9, 6 / 9, False)
                x = rng.standard_normal((2, 6, second.size, inner)).astype(dtype)
                x = x[..., 0] if inner == 1 else x
                for pair in ((first, second), (None, second)):
                    found = core.summed(fb.tensor(x), 1, *pair)
                    close = 1e-5 if dtype == "float32" else 1e-13
                    np.testing.assert_allclose(found.numpy(), by_matrices(x, 1, *pair), close, close)
                along = np.ascontiguousarray(np.moveaxis(x, 2, 1))
                found = core.summed(fb.tensor(along), 1, second, None)
                np.testing.assert_allclose(found.numpy(), by_matrices(along, 1, second, None), close, close)


def test_transposed_tables_are_transposed_matrices():
    rng = np.random.default_rng(0)
    for size in SIZES:
        for table in tables(rng, size):
            shares = 1.0 if table.shares is None else np.array(table.shares)
            np.testing.assert_allclose(matrix(table.turned()) / shares, matrix(table).T, 1e-15)
            assert table.turned().shares is None


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64", "complex64"]
)
def test_elements_are_moved_bit_by_bit(dtype, processor):
    rng = np.random.default_rng(3)
    kind = getattr(fb, dtype)
    for size in (3, 40, 150):
        x = fb.tensor(rng.integers(0, 100, (3, 7, size))).to(kind)
        given = x.view(fb.float32).numpy() if dtype == "complex64" else x.float().numpy()
        for table in (
            core.extended(size, 1, 2, "reflect"),
            core.extended(size, 2, 1, "circular"),
            core.nearest(size, 61, size / 61, False),
        ):
            places = [row[0][0] for row in table.rows_of()]
            found = core.summed(x, 1, None, table)
            wanted = given.reshape(3, 7, size, -1)[:, :, places].reshape(3, 7, -1)
            kept = found.view(fb.float32) if dtype == "complex64" else found.float()
            np.testing.assert_array_equal(kept.numpy(), wanted)


def test_zeros_keep_their_signs_and_nan_stays_where_it_is():
    x = fb.tensor([[[[-0.0, 1.0, float("nan"), 3.0]]]])
    assert str(F.interpolate(x, scale_factor=2).flatten()[0].item()) == "-0.0"
    found = F.adaptive_avg_pool2d(fb.tensor([[[[float("inf")] * 4 + [1.0] * 9]]]), (1, 4)).flatten().tolist()
    assert found == [float("inf"), float("inf"), 1.0, 1.0]
    assert F.avg_pool2d(x, (1, 2)).isnan().flatten().tolist() == [False, True]


CALLS = {
    "nearest": lambda x: F.interpolate(x, size=(9, 40)),
    "nearest-exact, smaller": lambda x: F.interpolate(x, size=(3, 5), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=(2.3, 0.6), mode="bilinear"),
    "bilinear, aligned": lambda x: F.interpolate(x, size=(1, 33), mode="bilinear", align_corners=True),
    "bilinear, antialiased": lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", antialias=True),
    "bicubic": lambda x: F.interpolate(x, size=(11, 50), mode="bicubic"),
    "bicubic, antialiased": lambda x: F.interpolate(x, size=(4, 9), mode="bicubic", antialias=True),
    "area": lambda x: F.interpolate(x, size=(4, 9), mode="area"),
    "linear": lambda x: F.interpolate(x.flatten(1, 2), size=41, mode="linear"),
    "trilinear": lambda x: F.interpolate(x.unsqueeze(1), size=(5, 3, 40), mode="trilinear"),
    "nearest, volumes": lambda x: F.interpolate(x.unsqueeze(1), scale_factor=2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive_avg_pool2d, one way": lambda x: F.adaptive_avg_pool2d(x, (None, 5)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.flatten(1, 2), 5),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 7)),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d, padding left out": lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    "avg_pool2d, ceil": lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True),
    "avg_pool2d, divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "avg_pool1d": lambda x: F.avg_pool1d(x.flatten(1, 2), 4, 3),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "reflect": lambda x: F.pad(x, (2, 3, 1, 4), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 30, 1, 0), mode="replicate"),
    "circular": lambda x: F.pad(x, (2, 3, 1, 4), mode="circular"),
    "reflect, cut": lambda x: F.pad(x, (-2, 3, 1, -4), mode="reflect"),
    "circular, cut": lambda x: F.pad(x, (-2, 3, 1, -3), mode="circular"),
    "reflect, lines": lambda x: F.pad(x.flatten(1, 2), (5, 6), mode="reflect"),
    "replicate, volumes": lambda x: F.pad(x, (1, 2, 3, 1, 1, 1), mode="replicate"),
}
LAYOUTS = {
    "plain": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=fb.channels_last),
    "cut": lambda x: fb.cat([x, x], 3)[..., : x.shape[3]],
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
}


def both_ways(call, x):
    """The result, the gradient, and the derivative of the gradient's square."""
    x = x.detach().requires_grad_()
    y = call(x)
    weight = fb.arange(y.numel(), dtype=y.dtype).reshape(y.shape).sin()
    (grad,) = fb.autograd.grad((y * y.detach() * weight).sum(), x, create_graph=True)
    return [y.detach(), grad.detach()]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_every_use_is_what_it_is_without_tables(name, layout, monkeypatch):
    x = LAYOUTS[layout](fb.randn(2, 3, 7, 21, dtype=fb.float64, generator=fb.Generator().manual_seed(1)))
    if layout != "plain" and x.ndim != 4:
        return
    used = []
    pairs = taps._pairs
    monkeypatch.setattr(taps, "_pairs", lambda tables: used.append(tables) or pairs(tables))
    found = both_ways(CALLS[name], x)
    assert used or layout != "plain"
    monkeypatch.setattr(taps, "fits", lambda *given: False)
    wanted = both_ways(CALLS[name], x)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("dtype", [fb.float16, fb.bfloat16, fb.complex64])
@pytest.mark.parametrize(
    "call",
    [
        lambda x: fb.nn.functional.interpolate(x, scale_factor=2),
        lambda x: fb.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    ],
)
def test_gradients_of_what_is_only_moved(call, dtype):
    x = fb.arange(24.0).reshape(1, 2, 3, 4)
    gradients = []
    for kind in (fb.float32, dtype):
        leaf = x.detach().to(kind).requires_grad_()
        y = call(leaf)
        y.backward(fb.arange(float(y.numel())).reshape(y.shape).remainder(7).to(kind))
        gradients.append(leaf.grad.to(fb.complex64))
    assert gradients[0].tolist() == gradients[1].tolist()


@pytest.mark.parametrize("name", ["bilinear", "adaptive_avg_pool3d", "avg_pool2d, ceil", "reflect"])
def test_derivatives_of_any_order(name):
    x = fb.randn(1, 2, 6, 7, dtype=fb.float64, requires_grad=True)
    assert gradcheck(CALLS[name], (x,))
    assert gradgradcheck(CALLS[name], (x,))


@pytest.mark.parametrize("name", ["bilinear", "adaptive_avg_pool2d", "circular", "trilinear"])
def test_slices_of_mapped_functions(name):
    x = fb.randn(3, 2, 3, 7, 21)
    found = fb.vmap(CALLS[name])(x)
    assert fb.equal(found, fb.stack([CALLS[name](s) for s in x]))
    y, back = fb.func.vjp(CALLS[name], x[0])
    given = fb.randn(4, *y.shape)
    (found,) = fb.vmap(back)(given)
    wanted = fb.stack([back(g)[0] for g in given])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-6, 1e-6)


def test_results_keep_channels_last():
    x = fb.randn(2, 5, 8, 9).contiguous(memory_format=fb.channels_last)
    for call in (CALLS["bilinear"], CALLS["adaptive_avg_pool2d"], CALLS["reflect"], CALLS["avg_pool2d"]):
        assert call(x).is_contiguous(memory_format=fb.channels_last)


@pytest.mark.parametrize("name", ["nearest", "bilinear", "adaptive_avg_pool2d", "reflect"])
def test_bits_are_the_same_for_any_number_of_threads(name):
    x, before, found = fb.randn(8, 16, 40, 41), fb.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            fb.set_num_threads(threads)
            found.append(CALLS[name](x))
    finally:
        fb.set_num_threads(before)
    assert all(fb.equal(found[0], other) for other in found)


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "avg_pool2d, padding left out"])
def test_gradients_of_means_are_divided_once(name):
    """A product with a rounded reciprocal is off by up to one place; a quotient by half a place at most."""
    x = fb.ones(1, 1, 7, 5, requires_grad=True)
    y = (lambda x: F.adaptive_avg_pool2d(x, (1, 3)))(x) if name.startswith("adaptive") else CALLS[name](x)
    (found,) = fb.autograd.grad(y, x, fb.full_like(y, 1.1))
    double = x.detach().double().requires_grad_()
    z = F.adaptive_avg_pool2d(double, (1, 3)) if name.startswith("adaptive") else CALLS[name](double)
    (wanted,) = fb.autograd.grad(z, double, fb.full_like(y, 1.1).double())
    few = 1 if name.startswith("adaptive") else 4
    assert (found.double() - wanted).abs().max() <= few * 2.0**-24 * wanted.abs().max()


def test_halves_are_rounded_once():
    x = fb.randn(2, 3, 9, 40).bfloat16()
    wanted = F.interpolate(x.float(), size=(20, 33), mode="bilinear").bfloat16()
    assert fb.equal(F.interpolate(x, size=(20, 33), mode="bilinear"), wanted)
    assert F.pad(x, (1, 1, 0, 0), mode="circular").dtype == fb.bfloat16


def test_what_is_too_long_for_a_table_goes_another_way():
    x = fb.arange(taps.MOST + 10.0).reshape(1, 1, -1)
    padded = F.pad(x, (2, 1), mode="circular").flatten()
    assert padded[:3].tolist() == [taps.MOST + 8, taps.MOST + 9, 0] and padded[-1] == 0
    assert F.interpolate(x, size=3).flatten()[0] == 0


def test_tables_refuse_what_does_not_fit():
    table = core.linear(4, 8, 0.5, False)
    with pytest.raises(ValueError, match="another size"):
        core.summed(fb.zeros(2, 5), 0, None, table)
    with pytest.raises(TypeError, match="int64"):
        core.summed(fb.zeros(2, 4, dtype=fb.int64), 0, None, table)
    with pytest.raises(IndexError):
        core.summed(fb.zeros(2, 4), 1, table, table)
    with pytest.raises(ValueError, match="elements"):
        core.nearest(0, 3, 1.0, False)
    assert core.summed(fb.zeros(0, 3, 4), 1, None, table).shape == (0, 3, 8)
