"""Each way of computing a convolution, forced by its name, against sums in float64: geometries, layouts, threads, special values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as fb
from flambeau.codegen.tiles import register
from flambeau.operations.neural.convolution import direct as convolution_direct
from flambeau.operations.neural.convolution import families
from flambeau.operations.neural.convolution import planes as convolution_planes
from flambeau.operations.neural.convolution import winograd as convolution_winograd
from flambeau.operations.neural.convolution.grid import Geometry

F = fb.nn.functional


def summed(x, w, g: Geometry, out):
    """The definition in float64: shifted slices of an input with zeros around it."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, g.stride, w.shape[2:], g.dilation)]
    room = np.zeros((*x.shape[:2], *reach))
    to, source = [], []
    for r, b, size in zip(reach, g.before, x.shape[2:]):
        first, end = max(-b, 0), min(r - b, size)  # of the input
        source.append(slice(first, max(end, first)))
        to.append(slice(first + b, max(end, first) + b))
    room[(..., *to)] = x[(..., *source)]
    found = np.zeros((x.shape[0], w.shape[0], *out))
    for i, j in itertools.product(*map(range, w.shape[2:])):
        y, z = i * g.dilation[0], j * g.dilation[1]
        part = room[
            :,
            :,
            y : y + (out[0] - 1) * g.stride[0] + 1 : g.stride[0],
            z : z + (out[1] - 1) * g.stride[1] + 1 : g.stride[1],
        ]
        found += np.einsum("nchw,oc->nohw", part, w[:, :, i, j], optimize=True)
    return found


def adjoint(grad, w, g: Geometry, sizes):
    """The gradient in the input, place by place of the window."""
    grad, w = grad.astype(np.float64), w.astype(np.float64)
    reach = [
        max((o - 1) * s + (k - 1) * d + 1, n + b)
        for o, s, k, d, n, b in zip(grad.shape[2:], g.stride, w.shape[2:], g.dilation, sizes, g.before)
    ]
    room = np.zeros((grad.shape[0], w.shape[1], *reach))
    for i, j in itertools.product(*map(range, w.shape[2:])):
        y, z = i * g.dilation[0], j * g.dilation[1]
        part = np.einsum("nohw,oc->nchw", grad, w[:, :, i, j], optimize=True)
        room[
            :,
            :,
            y : y + (grad.shape[2] - 1) * g.stride[0] + 1 : g.stride[0],
            z : z + (grad.shape[3] - 1) * g.stride[1] + 1 : g.stride[1],
        ] += part
    return room[:, :, g.before[0] : g.before[0] + sizes[0], g.before[1] : g.before[1] + sizes[1]]


LAYOUTS = ("first", "last", "cut first", "cut last", "turned")


def laid(array, layout):
    """A tensor of these values: as PyTorch lays it, channels last, a cut from either, with neither side by side."""
    if layout.startswith("cut"):
        wide = np.full((array.shape[0], array.shape[1] + 2, array.shape[2] + 1, array.shape[3] + 3), np.nan)
        wide[:, 1:-1, 1:, 2:-1] = array
        whole = fb.tensor(wide.astype(array.dtype))
        if layout == "cut last":
            whole = whole.to(memory_format=fb.channels_last)
        return whole[:, 1:-1, 1:, 2:-1]
    if layout == "turned":
        return fb.tensor(array.transpose(3, 2, 1, 0).copy()).permute(3, 2, 1, 0)
    found = fb.tensor(array)
    return found.to(memory_format=fb.channels_last) if layout == "last" else found


def case(way, seed):
    """Sizes, kernel and geometry that the way can take."""
    rng = np.random.default_rng(seed)

    def pick(*values):
        return int(rng.choice(values))

    if way.startswith("winograd"):
        kernel, stride, dilation = (3, 3), (1, 1), (1, 1)
        before = (pick(0, 1, 2, 4), pick(0, 1, 2, 5))
    elif way == "planes":
        kernel, stride, dilation, before = (1, 1), (1, 1), (1, 1), (0, 0)
    else:
        kernel = pick(1, 2, 3, 5), pick(1, 2, 3, 7)
        stride, dilation = (pick(1, 2, 3), pick(1, 2, 3)), (pick(1, 1, 2), pick(1, 1, 3))
        before = (pick(0, 1, 2), pick(0, 1, 3))
    sizes = tuple(
        pick(1, 2, 7, 13, 20) + max((k - 1) * d - 2 * b, 0) for k, d, b in zip(kernel, dilation, before)
    )
    out = tuple(
        (n + 2 * b - (k - 1) * d - 1) // s + 1
        for n, b, k, d, s in zip(sizes, before, kernel, dilation, stride)
    )
    shape = (pick(1, 2, 3), pick(1, 3, 16, 17, 40), *sizes)
    return shape, (pick(1, 8, 16, 19, 33, 70), shape[1], *kernel), Geometry(stride, before, dilation, 1), out


WAYS = ("direct", "planes", "winograd 4", "winograd 2")


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("way", WAYS)
def test_values_and_gradients(way, seed):
    shape, weight, g, out = case(way, seed)
    rng = np.random.default_rng(seed)
    dtype = "float64" if seed % 3 == 2 and "winograd" not in way else "float32"
    layout = LAYOUTS[seed % len(LAYOUTS)]
    x, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal(weight).astype(dtype)
    bias = rng.standard_normal(weight[0]).astype(dtype) if seed % 2 else None
    grad = rng.standard_normal((shape[0], weight[0], *out)).astype(dtype)
    scale = 1e-12 if dtype == "float64" else 2e-5 if way == "winograd 4" else 4e-6

    found = families.computed(
        way, laid(x, layout), fb.tensor(w), None if bias is None else fb.tensor(bias), g, out, False
    )
    want = summed(x, w, g, out) + (0 if bias is None else bias[:, None, None])
    np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=scale * (9 * weight[1]) ** 0.5 * 4)

    found = families.computed(way, laid(grad, layout), fb.tensor(w), None, g, shape[2:], True)
    want = adjoint(grad, w, g, shape[2:])
    np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=scale * (9 * weight[0]) ** 0.5 * 4)


BIG = [  # several blocks and bands, images that share one, filters beyond a panel
    ("direct", (3, 40, 33, 61), (70, 40, 3, 3), Geometry((2, 2), (1, 1), (1, 1), 1)),
    ("direct", (11, 200, 7, 7), (200, 200, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 1)),
    ("direct", (2, 3, 60, 64), (64, 3, 7, 7), Geometry((2, 2), (3, 3), (1, 1), 1)),
    ("direct", (1, 1024, 6, 5), (40, 1024, 1, 1), Geometry((2, 2), (0, 0), (1, 1), 1)),
    ("planes", (3, 70, 20, 21), (50, 70, 1, 1), Geometry((1, 1), (0, 0), (1, 1), 1)),
    (
        "planes",
        (1, 300, 7, 7),
        (200, 300, 1, 1),
        Geometry((1, 1), (0, 0), (1, 1), 1),
    ),  # parts of filters share pixels
    (
        "planes",
        (37, 600, 2, 2),
        (140, 600, 1, 1),
        Geometry((1, 1), (0, 0), (1, 1), 1),
    ),  # and images a vector; far terms
    ("winograd 4", (5, 40, 30, 31), (70, 40, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 1)),
    ("winograd 2", (5, 40, 30, 31), (70, 40, 3, 3), Geometry((1, 1), (0, 2), (1, 1), 1)),
    ("winograd 4", (1, 90, 9, 9), (130, 90, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 1)),
]


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("way, shape, weight, g", BIG)
def test_the_same_bits_for_any_number_of_threads(way, shape, weight, g, layout):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(shape).astype("f"), rng.standard_normal(weight).astype("f")
    out = tuple((n + 2 * b - k) // s + 1 for n, b, k, s in zip(shape[2:], g.before, weight[2:], g.stride))
    grad = rng.standard_normal((shape[0], weight[0], *out)).astype("f")
    given, sent, filters = laid(x, layout), laid(grad, layout), fb.tensor(w)
    before, found = fb.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 64):
            fb.set_num_threads(threads)
            y = families.computed(way, given, filters, None, g, out, False)
            dx = families.computed(way, sent, filters, None, g, shape[2:], True)
            found.append((y.numpy(), dx.numpy()))
    finally:
        fb.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)
    scale = 2e-5 if way == "winograd 4" else 4e-6
    terms = weight[2] * weight[3]
    want = summed(x, w, g, out)
    np.testing.assert_allclose(found[0][0], want, rtol=0, atol=scale * (terms * weight[1]) ** 0.5)
    want = adjoint(grad, w, g, shape[2:])
    np.testing.assert_allclose(found[0][1], want, rtol=0, atol=scale * (terms * weight[0]) ** 0.5)


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3), (4, 2)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_windows_of_one_place(layout, stride, images):
    rng = np.random.default_rng(7)
    x, w = (
        rng.standard_normal((images, 300, 12, 9)).astype("f"),
        rng.standard_normal((280, 300, 1, 1)).astype("f"),
    )
    g, sizes = Geometry(stride, (0, 0), (1, 1), 1), tuple(-(-n // s) for n, s in zip((12, 9), stride))
    grad = rng.standard_normal((images, 280, *sizes)).astype("f")
    near = "planes" if stride == (1, 1) else "spaced"
    assert families._way("float32", False, x.shape, w.shape, g, sizes, False, True) == near
    assert families._way("float32", False, grad.shape, w.shape, g, (12, 9), True, True) == near
    assert families._weight_way("float32", grad.shape, x.shape, g, (1, 1), True) == "product"

    given, filters = laid(x, layout).requires_grad_(), fb.tensor(w, requires_grad=True)
    y = F.conv2d(given, filters, stride=stride)
    to_x, to_w = fb.autograd.grad(y, (given, filters), laid(grad, layout))
    np.testing.assert_allclose(y.detach().numpy(), summed(x, w, g, sizes), rtol=0, atol=1e-4)
    np.testing.assert_allclose(to_x.numpy(), adjoint(grad, w, g, (12, 9)), rtol=0, atol=1e-4)
    read = x[:, :, :: stride[0], :: stride[1]].astype("d")
    want = np.einsum("nohw,nchw->oc", grad.astype("d"), read, optimize=True)[:, :, None, None]
    np.testing.assert_allclose(to_w.numpy(), want, rtol=0, atol=1e-4)
    if layout == "first":  # the bits of a plan, which is direct
        np.testing.assert_array_equal(
            y.detach().numpy(),
            families.computed("direct", given.detach(), filters.detach(), None, g, sizes, False).numpy(),
        )


@pytest.mark.parametrize("kernel, stride", [(1, 1), (1, 2), (3, 1), (3, 2), (5, 1)])
def test_a_result_has_the_layout_of_its_input(kernel, stride):
    x, w = fb.randn(2, 16, 9, 10), fb.randn(24, 16, kernel, kernel)
    first = F.conv2d(x, w, stride=stride, padding=kernel // 2)
    last = F.conv2d(x.to(memory_format=fb.channels_last), w, stride=stride, padding=kernel // 2)
    assert first.is_contiguous()
    assert last.is_contiguous(memory_format=fb.channels_last)
    np.testing.assert_allclose(first.numpy(), last.numpy(), rtol=0, atol=1e-4)


def test_ways_are_chosen_by_shape():
    def way(shape, weight, stride=1, padding=1, dtype="float32", turned=False, last=False):
        x, w = fb.empty(shape, dtype=getattr(fb, dtype)), fb.empty(weight, dtype=getattr(fb, dtype))
        x = x.to(memory_format=fb.channels_last) if last else x
        g = Geometry((stride,) * 2, (padding,) * 2, (1, 1), 1)
        return families._way(*families._selection_key(x, w, g, tuple(shape[2:])), turned, True)

    assert way((8, 64, 56, 56), (64, 64, 3, 3)) == "winograd 4"
    assert way((8, 64, 56, 56), (64, 64, 3, 3), dtype="float64") == "direct"
    assert way((1, 512, 7, 7), (512, 512, 3, 3)) == "direct"
    assert way((8, 64, 56, 56), (256, 64, 1, 1), padding=0) == "planes"
    assert way((8, 64, 56, 56), (256, 64, 1, 1), padding=0, last=True) == "direct"
    assert way((8, 64, 56, 56), (64, 64, 3, 3), stride=2) == "direct"
    assert way((8, 64, 56, 56), (256, 64, 1, 1), stride=2, padding=0) == "direct"  # padded behind
    assert way((8, 64, 56, 56), (2, 64, 3, 3)) == "grid"


def test_winograd_is_taken_only_while_allowed():
    x, w = fb.randn(2, 32, 30, 30), fb.randn(32, 32, 3, 3)
    g = Geometry((1, 1), (1, 1), (1, 1), 1)
    fast = F.conv2d(x, w, padding=1)
    assert fb.backends.cpu.allow_winograd is True
    try:
        fb.backends.cpu.allow_winograd = False
        plain = F.conv2d(x, w, padding=1)
    finally:
        fb.backends.cpu.allow_winograd = True
    direct = families.computed("direct", x, w, None, g, (30, 30), False)
    np.testing.assert_array_equal(plain.numpy(), direct.numpy())
    assert not np.array_equal(fast.numpy(), plain.numpy())
    with pytest.raises(RuntimeError, match="allow_winograd must be a bool"):
        fb.backends.cpu.allow_winograd = 1


def errors(way, x, w, g, out):
    found = families.computed(way, fb.tensor(x), fb.tensor(w), None, g, out, False).numpy()
    want = summed(x, w, g, out)
    return np.sqrt(((found - want) ** 2).mean() / (want**2).mean())


def test_errors_of_winograd_stay_near_those_of_a_sum():
    rng = np.random.default_rng(0)
    g, out = Geometry((1, 1), (1, 1), (1, 1), 1), (12, 12)
    x, w = rng.standard_normal((2, 64, 12, 12)).astype("f"), rng.standard_normal((32, 64, 3, 3)).astype("f")
    plain = np.zeros((2, 32, 12, 12), "f")  # one term after another
    room = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    for c, i, j in itertools.product(range(64), range(3), range(3)):
        plain += room[:, c : c + 1, i : i + 12, j : j + 12] * w[:, c, i, j][:, None, None]
    want = summed(x, w, g, out)
    one_by_one = np.sqrt(((plain - want) ** 2).mean() / (want**2).mean())
    assert errors("winograd 4", x, w, g, out) < 3 * one_by_one
    assert errors("winograd 2", x, w, g, out) < one_by_one
    assert errors("direct", x, w, g, out) < one_by_one


@pytest.mark.parametrize("m", [2, 4])
def test_what_is_not_finite_stays_within_its_square(m):
    x, w = fb.randn(1, 16, 16, 16), fb.randn(16, 16, 3, 3)
    x[0, 3, 8, 8] = float("inf")
    g = Geometry((1, 1), (1, 1), (1, 1), 1)
    found = families.computed(f"winograd {m}", x, w, None, g, (16, 16), False)
    odd = ~np.isfinite(found.numpy()).all(axis=(0, 1))
    assert odd[7:10, 7:10].all()  # the windows that see it
    first, last = (7 - m + 1) // m * m, (9 // m + 1) * m + m
    odd[max(first - m, 0) : last, max(first - m, 0) : last] = False
    assert not odd.any()


@pytest.fixture
def by_winograd(monkeypatch):
    """Has all windows of 3 × 3 computed by F(m × m, 3 × 3)."""

    def choose(m):
        monkeypatch.setattr(families, "winograd_of", lambda *sizes: m)
        families._way.cache_clear()

    yield choose
    families._way.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("m", [2, 4])
def test_what_is_not_finite_spreads_as_is_documented(m, dims, dtype, by_winograd):
    """In its squares of m × m results, whose patches of m + 2 places hold it, and in no others; gradients in the input, too."""
    by_winograd(m)
    place, size = (2, 8, 9)[3 - dims :], (5, 17, 18)[3 - dims :]
    kind = getattr(fb, dtype)
    w = fb.randn(32, 32, *(3,) * dims).to(kind)
    x = fb.randn(1, 32, *size).to(kind)
    x[(0, 3, *place)] = float("inf")
    convolve, turned = getattr(F, f"conv{dims}d"), getattr(F, f"conv_transpose{dims}d")
    for found in (convolve(x, w, padding=1), turned(x, w, padding=1)):
        parts = fb.view_as_real(found) if dtype == "complex64" else found.float()
        odd = ~np.isfinite(parts.numpy()).reshape(32, *size, -1).all(axis=(0, -1))
        seen = [range(p - 1, p + 2) for p in place]
        assert odd[np.ix_(*seen)].all()  # the windows that see it
        squares = [range((p + 1 - m - 1) // m * m, (p + 1) // m * m + m) for p in place[-2:]]
        odd[np.ix_(*seen[:-2], *squares)] = False
        assert not odd.any()


def test_second_derivatives_go_by_the_same_ways():
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s) for s in ((2, 16, 12, 12), (24, 16, 3, 3)))
    found = []
    for dtype in ("float32", "float64"):
        a, b = (fb.tensor(v).to(getattr(fb, dtype)).requires_grad_() for v in (x, w))
        y = F.conv2d(a, b, padding=1)
        (first,) = fb.autograd.grad(y.sin().sum(), a, create_graph=True)
        again = fb.autograd.grad(first.square().sum(), (a, b))
        found.append([t.detach().numpy() for t in (y, first, *again)])
    for low, high in zip(*found):
        np.testing.assert_allclose(low, high, rtol=0, atol=1e-4 * np.abs(high).max())


def test_filters_of_a_plan_are_read_anew_at_each_call():
    x, w = fb.randn(2, 32, 20, 20), fb.randn(32, 32, 3, 3)
    first = F.conv2d(x, w, padding=1)
    w.mul_(2.0)
    np.testing.assert_allclose(F.conv2d(x, w, padding=1).numpy(), 2 * first.numpy(), rtol=1e-4, atol=1e-3)


def test_plans_need_squares_of_every_size():
    for rows in range(1, 40):
        for most in (6, 14):
            cut = [
                rows * (k + 1) // -(-rows // most) - rows * k // -(-rows // most)
                for k in range(-(-rows // most))
            ]
            assert set(cut) <= convolution_winograd.runs([rows], most)
            assert max(cut) <= most


def forget():
    """Everything that was planned for other registers."""
    kept = [register.lanes, register.address, families._way, families.winograd_of, families._zeros]
    kept += [convolution_winograd.plan, convolution_winograd.rows_and_vectors, convolution_planes.plan]
    kept += [convolution_planes.rows_and_vectors, convolution_direct.forward, convolution_direct.gradient]
    for function in kept:
        function.cache_clear()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bytes_wide", [16, 32])
def test_narrower_registers(bytes_wide, way, monkeypatch):
    """What a processor without AVX-512 computes, on this one."""
    forget()
    monkeypatch.setattr(register, "width", lambda: bytes_wide)
    try:
        for seed in (1, 5, 9):
            test_values_and_gradients(way, seed)
    finally:
        forget()


def test_no_images():
    x = fb.zeros(0, 32, 9, 9, requires_grad=True)
    y = F.conv2d(x, fb.randn(32, 32, 3, 3), padding=1)
    assert y.shape == (0, 32, 9, 9)
    y.sum().backward()
    assert x.grad.shape == x.shape
