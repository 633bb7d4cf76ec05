"""Products by generated tiles: every layout, size and ending against float64, the same bits for any number of threads."""

import numpy as np
import pytest
from flambeau.core.lib.products.product_plan import ProductPlan

import flambeau
from flambeau.codegen import target
from flambeau.codegen.tiles import dots, register
from flambeau.codegen.tiles import panels as shapes
from flambeau.core.lib.products import matrices, panels

SIZES = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48, 65, 80, 129]
LAYOUTS = ["rows", "columns", "steps", "repeated"]


@pytest.fixture(autouse=True)
def tiles():
    matrices.prefer("tiles")
    yield
    matrices.prefer("")


def laid(values, layout):
    """A tensor of these values in a layout; what lies between them is NaN."""
    t = flambeau.tensor(values)
    if layout == "columns":
        return t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "repeated":
        return t[..., :1, :].expand(t.shape)
    if layout == "steps":
        field = flambeau.full([*t.shape[:-2], 2 * t.shape[-2], 3 * t.shape[-1]], float("nan"), dtype=t.dtype)
        field[..., ::2, ::3] = t
        return field[..., ::2, ::3]
    return t


def near(found, want, terms):
    limit = 2e-6 if found.dtype == flambeau.float32 else 4e-15
    np.testing.assert_allclose(found.double().numpy(), want, rtol=0, atol=limit * (terms**0.5 + 1) * 4)


def pair(rng, m, k, n, dtype, left, right):
    a = laid(rng.standard_normal((m, k)).astype(dtype), left)
    b = laid(rng.standard_normal((k, n)).astype(dtype), right)
    return a, b, a.double().numpy() @ b.double().numpy()


def random_products(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, k, n = (int(x) for x in rng.choice(SIZES, 3))
        dtype, left, right = rng.choice(["float32", "float64"]), rng.choice(LAYOUTS), rng.choice(LAYOUTS)
        a, b, want = pair(rng, m, k, n, str(dtype), left, right)
        near(a @ b, want, k)
        addend = flambeau.tensor(rng.standard_normal((m, n)).astype(dtype))
        near(flambeau.addmm(addend, a, b, beta=0.5, alpha=-2.0), -2 * want + 0.5 * addend.double().numpy(), k)
        bias = flambeau.tensor(rng.standard_normal(n).astype(dtype))
        near(flambeau.addmm(bias, a, b), want + bias.double().numpy(), k)


@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed):
    random_products(20, seed)


@pytest.fixture(params=[16, 32])
def bytes_wide(request, monkeypatch):
    """The registers of a processor without AVX-512, on this one."""
    bytes_wide = request.param
    monkeypatch.setattr(register, "width", lambda: bytes_wide)
    monkeypatch.setattr(shapes, "width", lambda: bytes_wide)
    monkeypatch.setattr(target, "processor", lambda: ("x86-64-v3", "+avx,+avx2,+fma"))
    caches = (register.lanes, register.address, dots.address, target.host_machine)
    for cache in caches:
        cache.cache_clear()
    panels.forget()
    yield bytes_wide
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()
    panels.forget()


def test_halves_after_other_registers():
    """What is compiled of float32's panels is what products of halves lay out with: all of it is forgotten together."""
    a, b = (flambeau.randint(-3, 4, size).half() for size in ((65, 70), (70, 61)))
    wanted = a.double() @ b.double()
    assert flambeau.equal((a @ b).double(), wanted)
    panels.forget()
    assert flambeau.equal((a @ b).double(), wanted)


def test_narrower_registers(bytes_wide):
    random_products(25, bytes_wide)


@pytest.mark.parametrize("m, k, n", [(33, 900, 41), (400, 500, 35), (13, 385, 20)])
def test_parts_and_bands_of_narrower_registers(bytes_wide, m, k, n):
    """The first tile of a band lays the panel out for the others, part after part of the terms; taller products have bands."""
    rng = np.random.default_rng(m)
    before = flambeau.get_num_threads()
    for left, right in [("rows", "rows"), ("columns", "rows"), ("rows", "columns")]:
        a, b, want = pair(rng, m, k, n, "float32", left, right)
        found = []
        for threads in (1, 3):
            flambeau.set_num_threads(threads)
            found.append(a @ b)
        flambeau.set_num_threads(before)
        near(found[0], want, k)
        assert (found[0] == found[1]).all()
        stacked = flambeau.stack([a, 2 * a]) @ b
        near(stacked[1], 2 * want, 4 * k)


def test_who_computes_with_narrower_registers(bytes_wide):
    matrices.prefer("")
    ways = [ProductPlan(flambeau.ones(n, n), flambeau.ones(n, n)).way for n in (8, 64, 1024)]
    assert ways == ["BLAS", "tiles" if bytes_wide == 32 else "BLAS", "BLAS"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "m, k, n", [(9, 1024, 20), (13, 1025, 70), (400, 1100, 65), (7, 3000, 9), (700, 130, 210)]
)
def test_deep_and_tall_products(dtype, m, k, n):
    """Sums that are put down on the way, bands of rows, and left operands that are turned."""
    rng = np.random.default_rng(m)
    for left, right in [("rows", "rows"), ("columns", "columns"), ("steps", "columns")]:
        a, b, want = pair(rng, m, k, n, dtype, left, right)
        near(a @ b, want, k)
        bias = flambeau.tensor(rng.standard_normal((1, n)).astype(dtype))
        near(flambeau.addmm(bias, a, b, alpha=0.5), want / 2 + bias.double().numpy(), k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m, k, n", [(400, 1024, 32), (203, 1500, 17), (300, 1024, 100)])
def test_tall_products_of_a_batch(dtype, m, k, n):
    rng = np.random.default_rng(m)
    a, b = (flambeau.tensor(rng.standard_normal(s).astype(dtype)) for s in [(2, m, k), (2, k, n)])
    near(a @ b, a.double().numpy() @ b.double().numpy(), k)


@pytest.mark.parametrize("m, k, n", [(100, 60, 70), (400, 1100, 130), (3, 2000, 500), (1300, 200, 9)])
def test_same_bits_for_any_number_of_threads(m, k, n):
    rng = np.random.default_rng(k)
    before = flambeau.get_num_threads()
    for left, right in [("rows", "rows"), ("columns", "columns"), ("rows", "columns")]:
        a, b, _ = pair(rng, m, k, n, "float32", left, right)
        found = []
        for threads in (1, 2, 3, 64):
            flambeau.set_num_threads(threads)
            found.append(a @ b)
        flambeau.set_num_threads(before)
        assert all((f == found[0]).all() for f in found)


def test_an_element_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    a, b, _ = pair(rng, 50, 300, 90, "float32", "rows", "rows")
    whole = a @ b
    for rows, columns in [
        (slice(3, 4), slice(0, 90)),
        (slice(7, 30), slice(5, 22)),
        (slice(0, 50), slice(89, 90)),
    ]:
        assert (a[rows] @ b[:, columns] == whole[rows, columns]).all()


@pytest.mark.parametrize("b_shape", [(6, 40, 30), (1, 40, 30), (40, 30), (5, 1, 40, 30)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches(b_shape, layout):
    rng = np.random.default_rng(len(b_shape))
    a = laid(rng.standard_normal((6, 20, 40)).astype("float32"), layout)
    b = laid(rng.standard_normal(b_shape).astype("float32"), layout)
    near(a @ b, a.double().numpy() @ b.double().numpy(), 40)
    near(a[:, :1] @ b, a[:, :1].double().numpy() @ b.double().numpy(), 40)


def test_summed_over_a_batch():
    rng = np.random.default_rng(1)
    a, b = (flambeau.tensor(rng.standard_normal(s).astype("float32")) for s in [(5, 20, 30), (5, 30, 40)])
    addend = flambeau.tensor(rng.standard_normal((40,)).astype("float32"))
    want = (a.double().numpy() @ b.double().numpy()).sum(0)
    near(flambeau.addbmm(addend, a, b, beta=2), want + 2 * addend.double().numpy(), 150)
    near(flambeau.addbmm(addend, a, b), want + addend.double().numpy(), 150)
    shared = b[0].clone().requires_grad_()
    (a @ shared).sum().backward()
    near(shared.grad, a.double().numpy().sum((0, 1))[:, None].repeat(40, 1), 100)


def test_what_is_not_asked_for_is_not_read():
    """beta = 0, alpha = 0, no terms, and NaN where it belongs."""
    nan = flambeau.full((20, 30), float("nan"))
    a, b = flambeau.ones(20, 40), flambeau.ones(40, 30)
    assert (flambeau.addmm(nan, a, b, beta=0) == 40).all()
    assert (flambeau.addmm(nan, a, b, beta=0, alpha=0.5) == 20).all()
    assert flambeau.addmm(nan, a, b).isnan().all()
    assert flambeau.addmm(nan[0], a, b).isnan().all()
    assert (flambeau.ones(20, 0) @ flambeau.ones(0, 30) == 0).all()
    assert (flambeau.addmm(flambeau.ones(30), a[:, :0], b[:0], beta=3) == 3).all()
    assert (flambeau.ones(0, 4) @ flambeau.ones(4, 5)).shape == (0, 5)
    a[3, 7] = float("nan")
    found = a @ b
    assert found[3].isnan().all() and found.isnan().sum() == 30
    b[0, 29] = float("inf")
    found = flambeau.ones(20, 40) @ b
    assert found.isinf().sum() == 20 and (found[:, :29] == 40).all()


def test_in_place_and_out():
    rng = np.random.default_rng(2)
    a, b, want = pair(rng, 20, 40, 30, "float32", "rows", "columns")
    field = flambeau.ones(30, 40)
    view = field[5:25, 3:33]
    view.addmm_(a, b, beta=2)
    near(view, want + 2, 40)
    assert (field[:5] == 1).all() and (field[:, 33:] == 1).all()
    c = flambeau.ones(20, 30)
    flambeau.addmm(c, a, b, beta=3, out=c)
    near(c, want + 3, 40)
    square = flambeau.tensor(rng.standard_normal((30, 30)).astype("float32"))
    want = square.double().numpy() @ square.double().numpy()
    flambeau.mm(square, square, out=square)
    near(square, want, 30)


def test_a_bias_is_added_in_the_tile_with_gradients():
    rng = np.random.default_rng(3)
    x, w, bias = (flambeau.tensor(rng.standard_normal(s)).requires_grad_() for s in [(12, 9), (70, 9), (70,)])
    assert flambeau.autograd.gradcheck(flambeau.nn.functional.linear, (x, w, bias))


def test_errors_are_no_larger_than_a_plain_sum():
    rng = np.random.default_rng(4)
    a, b = rng.random((8, 5000), "float32"), rng.random((5000, 64), "float32")
    exact = a.astype("float64") @ b
    found = (flambeau.tensor(a) @ flambeau.tensor(b)).numpy()
    assert np.abs(found / exact - 1).max() < 2e-6


@pytest.mark.parametrize("m", [1, 2, 5, 8, 20, 32])
@pytest.mark.parametrize("k", [1, 31, 32, 100, 2100])
def test_few_rows_by_a_transposed_operand(m, k):
    """The tile of dot products in each dtype that has it, with what is added, and rounded once."""
    rng = np.random.default_rng(k)
    for dtype, limit in [("float32", 3e-6), ("float64", 1e-14), ("bfloat16", 2**-8)]:
        x, w, bias, addend = (
            flambeau.tensor(rng.standard_normal(s)).to(getattr(flambeau, dtype))
            for s in [(m, k), (45, k), (45,), (m, 45)]
        )
        exact = x.double().numpy() @ w.double().numpy().T
        scale = np.abs(exact).max() + 3
        found = flambeau.nn.functional.linear(x, w, bias).double().numpy()
        assert np.abs(found - exact - bias.double().numpy()).max() <= limit * scale
        found = flambeau.addmm(addend, x, w.t(), beta=0.5, alpha=2).double().numpy()
        assert np.abs(found - 2 * exact - 0.5 * addend.double().numpy()).max() <= 2 * limit * scale
        found = (w @ x[0]).double().numpy()
        assert np.abs(found - exact[0]).max() <= limit * scale


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_are_real_ones(dtype):
    rng = np.random.default_rng(5)
    limit = 1e-5 if dtype == "complex64" else 1e-13

    def draw(*shape):
        return flambeau.tensor((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype))

    for m, k, n in [(2, 1, 2), (7, 9, 5), (33, 40, 17), (20, 1200, 35), (200, 64, 100)]:
        a, b, addend, bias = draw(m, k), draw(k, n), draw(m, n), draw(n)
        exact = a.numpy().astype(complex) @ b.numpy()
        scale = limit * (k**0.5 + 1)
        for found, want in [
            (a @ b, exact),
            (flambeau.addmm(addend, a, b, beta=0.5, alpha=-2), 0.5 * addend.numpy() - 2 * exact),
            (flambeau.addmm(addend, a, b, beta=0.5j, alpha=2j), 0.5j * addend.numpy() + 2j * exact),
            (flambeau.addmm(bias, a, b), exact + bias.numpy()),
            (a.t().contiguous().t() @ b, exact),
        ]:
            assert np.abs(found.numpy() - want).max() <= scale
    a, b = draw(4, 30, 20), draw(4, 20, 25)
    for right in (b, b[0]):
        assert np.abs((a @ right).numpy() - a.numpy().astype(complex) @ right.numpy()).max() <= 10 * limit
    before = flambeau.get_num_threads()
    a, b, found = draw(100, 300), draw(300, 200), []
    for threads in (1, 2, 3, 64):
        flambeau.set_num_threads(threads)
        found.append(a @ b)
    flambeau.set_num_threads(before)
    assert all((f == found[0]).all() for f in found)


def test_more_bytes_than_64_bits_count():
    """Operands without elements of their own, whose copies nothing could hold."""
    for k in (1 << 40, 1 << 58):
        for dtype in (flambeau.float32, flambeau.float64, flambeau.bfloat16, flambeau.complex64):
            one = flambeau.ones(1, 1, dtype=dtype)
            for a, b in [(one.expand(5, k), one.expand(k, 7)), (one.expand(1, k), one.expand(k, 1))]:
                with pytest.raises(RuntimeError):
                    a @ b
