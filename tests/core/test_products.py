"""Matrix products: values against NumPy in every layout, gradients to second order, dtypes, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.core.base import parallel
from flambeau.core.lib.products import products
from flambeau.nn.functional import bilinear, linear

TYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8"]


def array(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Values that every dtype holds exactly."""
    return np.random.default_rng([seed, *shape]).integers(0, 4, shape).astype(dtype)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def laid_out(values: np.ndarray, layout: str) -> flambeau.Tensor:
    """A tensor of these values in another layout of memory, gaps filled with what must not be read."""
    t = flambeau.tensor(values)
    if values.ndim == 0 or layout == "rows":
        return t
    if layout == "columns":
        return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.ndim > 1 else t
    fill = float("nan") if t.is_floating_point() else 99
    if layout == "padded":
        wide = flambeau.full([*t.shape[:-1], t.shape[-1] + 3], fill, dtype=t.dtype)
        part = wide[..., 1 : t.shape[-1] + 1]
    elif layout == "steps":
        wide = flambeau.full([*t.shape[:-1], t.shape[-1] * 2 + 1], fill, dtype=t.dtype)
        part = wide[..., 1::2]
    else:  # the stack's dimensions innermost
        order = [*range(1, t.ndim), 0]
        return t.permute(order).contiguous().permute([t.ndim - 1, *range(t.ndim - 1)])
    part.copy_(t)
    return part


def check(found: flambeau.Tensor, expected: np.ndarray, tolerance: float = 0.0) -> None:
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    assert found.is_contiguous()
    np.testing.assert_allclose(
        np.array(found.tolist(), expected.dtype).reshape(expected.shape),
        expected,
        rtol=tolerance,
        atol=tolerance,
    )


# --- values -----------------------------------------------------------------------------------
SHAPES = [
    ((3,), (3,)),
    ((0,), (0,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((1, 3), (3, 1)),
    ((4, 1), (1, 5)),
    ((2, 0), (0, 4)),
    ((0, 3), (3, 4)),
    ((2, 3), (3, 0)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (1, 5, 3, 4)),
    ((1, 2, 3), (7, 3, 4)),
    ((5, 2, 0), (5, 0, 4)),
    ((0, 2, 3), (0, 3, 4)),
    ((0, 2, 3), (1, 3, 4)),
    ((2, 1, 3, 2, 3), (1, 4, 1, 3, 2)),
]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul_agrees_with_numpy_for_all_ranks(shapes, dtype):
    a, b = array(*shapes[0], dtype=dtype), array(*shapes[1], dtype=dtype, seed=1)
    found = flambeau.matmul(flambeau.tensor(a), flambeau.tensor(b))
    check(found, a @ b)
    assert found.dtype == getattr(flambeau, dtype)


@pytest.mark.parametrize(
    "layouts", list(itertools.product(["rows", "columns", "padded", "steps", "inside"], repeat=2)), ids=str
)
@pytest.mark.parametrize("shapes", [s for s in SHAPES if 0 not in s[0] + s[1]], ids=str)
def test_matmul_reads_every_layout(shapes, layouts):
    a, b = array(*shapes[0]), array(*shapes[1], seed=1)
    check(laid_out(a, layouts[0]) @ laid_out(b, layouts[1]), a @ b)


def test_expanded_operands():
    a, b = array(3, 1), array(1, 4)
    x, y = flambeau.tensor(a).expand(3, 5), flambeau.tensor(b).expand(5, 4)
    check(x @ y, np.broadcast_to(a, (3, 5)) @ np.broadcast_to(b, (5, 4)))
    one = flambeau.tensor(2.0, dtype=flambeau.float64)
    check(one.expand(3, 3) @ one.expand(3), np.full(3, 12.0))
    check(one.expand(7, 2, 3) @ one.expand(3, 2), np.full((7, 2, 2), 12.0))


@pytest.mark.parametrize("dtype", TYPES)
def test_every_operation_in_every_dtype(dtype):
    m1, m2, v3, v4 = (array(*s, dtype=dtype, seed=k) for k, s in enumerate([(2, 3), (3, 4), (3,), (4,)]))
    s1, s2 = array(5, 2, 3, dtype=dtype), array(5, 3, 4, dtype=dtype)
    t = flambeau.tensor
    check(flambeau.mm(t(m1), t(m2)), m1 @ m2)
    check(flambeau.bmm(t(s1), t(s2)), s1 @ s2)
    check(flambeau.mv(t(m1), t(v3)), m1 @ v3)
    check(flambeau.dot(t(v3), t(v3)), v3 @ v3)
    check(flambeau.vdot(t(v3), t(v3)), v3 @ v3)
    check(flambeau.outer(t(v3), t(v4)), np.outer(v3, v4))
    check(flambeau.inner(t(s1), t(s1)), np.inner(s1, s1))
    check(flambeau.inner(t(s1), t(m1)), np.inner(s1, m1))
    check(flambeau.inner(t(v3), t(s1)), np.inner(v3, s1))
    check(flambeau.inner(t(s1), t(v3)), np.inner(s1, v3))
    check(flambeau.inner(t(v3), t(v3[0])), v3 * v3[0])
    check(linear(t(s1), t(m1), t(v3[:2])), s1 @ m1.T + v3[:2])
    check(flambeau.addmm(t(v4), t(m1), t(m2), beta=2, alpha=3), 2 * v4 + 3 * (m1 @ m2))
    check(flambeau.addmv(t(v3[:2]), t(m1), t(v3), beta=2, alpha=3), 2 * v3[:2] + 3 * (m1 @ v3))
    check(flambeau.baddbmm(t(v4), t(s1), t(s2), beta=2, alpha=3), 2 * v4 + 3 * (s1 @ s2))
    check(flambeau.addbmm(t(v4), t(s1), t(s2), beta=2, alpha=3), 2 * v4 + 3 * (s1 @ s2).sum(0, dtype=dtype))
    check(products.addr(t(v4), t(v3), t(v4), beta=2, alpha=3), 2 * v4 + 3 * np.outer(v3, v4))


@pytest.mark.parametrize("dtype, step", [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_half_types_accumulate_in_float32(dtype, step):
    a, b = noise(7, 1000), noise(1000, 5)
    x, y = flambeau.tensor(a).to(getattr(flambeau, dtype)), flambeau.tensor(b).to(getattr(flambeau, dtype))
    found = x @ y
    assert found.dtype == x.dtype
    expected = np.array(x.tolist()) @ np.array(y.tolist())
    np.testing.assert_allclose(found.tolist(), expected, rtol=step, atol=1e-4)
    bias = flambeau.ones(5, dtype=x.dtype)
    np.testing.assert_allclose(linear(x, y.t(), bias).tolist(), expected + 1, rtol=step, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("small", [True, False])
def test_integers_of_any_size_are_exact(dtype, small):
    """Small ones go through float64, large ones wrap around."""
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    low, high = (0, 100) if small else (info.min, info.max)
    a, b, c = (rng.integers(low, high, s, dtype, endpoint=True) for s in ((20, 33), (17, 33), (20, 17)))
    with np.errstate(over="ignore"):
        expected = (a @ b.T) * np.array(3, dtype) + c * np.array(2, dtype)
    found = flambeau.addmm(*map(flambeau.from_numpy, (c, a)), flambeau.from_numpy(b).t(), alpha=3, beta=2)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_integers_wrap_around():
    a = flambeau.tensor([[100, 100]], dtype=flambeau.int8)
    assert (a @ a.t()).tolist() == [[(20000 + 128) % 256 - 128]]
    big = flambeau.tensor([2**62, 2**62])
    assert flambeau.dot(big, flambeau.tensor([2, 2])).item() == 0


def test_wide_integer_products():
    a, b = array(3, 40, dtype="int64"), array(40, 300, dtype="int64")
    check(flambeau.tensor(a) @ flambeau.tensor(b), a @ b)
    check(flambeau.tensor(a) @ laid_out(b, "columns"), a @ b)


def test_beta_zero_leaves_the_addend_unread():
    nan = flambeau.full((2, 2), float("nan"))
    assert flambeau.addmm(nan, flambeau.ones(2, 3), flambeau.ones(3, 2), beta=0).tolist() == [[3.0, 3.0]] * 2
    assert (
        flambeau.addbmm(nan, flambeau.ones(4, 2, 0), flambeau.ones(4, 0, 2), beta=0).tolist()
        == [[0.0] * 2] * 2
    )
    assert products.addr(nan, flambeau.ones(2), flambeau.ones(2), beta=0).tolist() == [[1.0] * 2] * 2


def test_empty_sums_leave_the_scaled_addend():
    c = array(2, 4)
    found = flambeau.addmm(
        flambeau.tensor(c), flambeau.zeros(2, 0).double(), flambeau.zeros(0, 4).double(), beta=3
    )
    check(found, 3 * c)
    empty = flambeau.addbmm(
        flambeau.tensor(c), flambeau.zeros(0, 2, 3).double(), flambeau.zeros(0, 3, 4).double(), beta=3
    )
    check(empty, 3 * c)


def test_linear_shapes():
    w, bias = array(4, 3), array(4)
    for shape in [(3,), (2, 3), (2, 5, 3), (0, 3), (2, 0, 3)]:
        x = array(*shape)
        check(linear(flambeau.tensor(x), flambeau.tensor(w)), x @ w.T)
        check(linear(flambeau.tensor(x), flambeau.tensor(w), flambeau.tensor(bias)), x @ w.T + bias)
        check(linear(laid_out(x, "steps"), laid_out(w, "columns"), laid_out(bias, "steps")), x @ w.T + bias)
        check(linear(flambeau.tensor(x), flambeau.tensor(w[0])), x @ w[0])
    check(linear(flambeau.tensor(x), flambeau.tensor(w), flambeau.tensor(bias[0])), x @ w.T + bias[0])
    check(linear(input=flambeau.tensor(x), weight=flambeau.tensor(w), bias=None), x @ w.T)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(
    "sizes", [(1, 1), (1, 4), (4, 4), (7, 9), (8, 12), (33, 18), (64, 64), (65, 64)], ids=str
)
def test_small_transposed_weights_of_float32(rows, sizes):
    x, w = array(3, rows, sizes[1], dtype="float32"), array(*sizes, dtype="float32")
    check(linear(flambeau.tensor(x), flambeau.tensor(w)), x @ w.T)
    check(flambeau.tensor(x) @ laid_out(w, "padded").t(), x @ w.T)
    stack = array(3, *sizes, dtype="float32", seed=1)
    check(flambeau.tensor(x) @ flambeau.tensor(stack).mT, x @ stack.swapaxes(1, 2))


def test_operators_and_methods():
    a, b = flambeau.tensor(array(2, 3)), flambeau.tensor(array(3, 4))
    for found in (a @ b, a.matmul(b), a.mm(b), flambeau.matmul(a, other=b), flambeau.linalg.matmul(a, b)):
        assert found.tolist() == (array(2, 3) @ array(3, 4)).tolist()
    with pytest.raises(TypeError):
        a @ 3
    with pytest.raises(TypeError):
        3 @ a


# --- out= and in place ------------------------------------------------------------------------
def test_out_is_written_resized_and_may_be_an_operand():
    a, b = array(3, 3), array(3, 3, seed=1)
    x, y = flambeau.tensor(a), flambeau.tensor(b)
    out = flambeau.empty(3, 3, dtype=x.dtype)
    address = out.data_ptr()
    assert flambeau.mm(x, y, out=out) is out
    assert out.data_ptr() == address
    check(out, a @ b)
    turned = flambeau.empty(3, 3, dtype=x.dtype).t()
    np.testing.assert_array_equal(flambeau.matmul(x, y, out=turned).tolist(), a @ b)
    small = flambeau.empty(0, dtype=x.dtype)
    check(flambeau.addmm(x, x, y, out=small), a + a @ b)
    check(flambeau.outer(x[0], y[0], out=flambeau.empty(3, 3, dtype=x.dtype)), np.outer(a[0], b[0]))
    assert flambeau.mm(x, y, out=x) is x
    check(x, a @ b)


def test_in_place_forms():
    c, a, b = array(2, 2), array(2, 3), array(3, 2)
    x = flambeau.tensor(c)
    version = x._version
    assert x.addmm_(flambeau.tensor(a), flambeau.tensor(b), beta=2, alpha=3) is x
    assert x._version == version + 1
    check(x, 2 * c + 3 * (a @ b))
    turned = flambeau.tensor(c.T.copy()).t()
    np.testing.assert_array_equal(turned.addmm_(flambeau.tensor(a), flambeau.tensor(b)).tolist(), c + a @ b)
    overlapping = flambeau.tensor(c)
    check(overlapping.addmm_(overlapping, overlapping.t()), c + c @ c.T)
    vector = flambeau.tensor(c[0])
    check(vector.addmv_(flambeau.tensor(a), flambeau.tensor(b[:, 0])), c[0] + a @ b[:, 0])
    outer = flambeau.tensor(c)
    check(
        products.addr_(outer, flambeau.tensor(c[0]), flambeau.tensor(c[1]), beta=2),
        2 * c + np.outer(c[0], c[1]),
    )


# --- gradients --------------------------------------------------------------------------------
def differences(function, arrays: list[np.ndarray], k: int, step: float = 1e-4) -> np.ndarray:
    """Gradient of the number `function(arrays)` with respect to arrays[k], by central differences."""
    gradient = np.zeros_like(arrays[k])
    for place in np.ndindex(*arrays[k].shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[k][place] += sign * step
            ends.append(function(moved))
        gradient[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def check_gradients(function, *shapes: tuple[int, ...]) -> None:
    """First and second derivatives of a weighted sum of squares of the results."""
    arrays = [noise(*shape, seed=k) for k, shape in enumerate(shapes)]

    def loss(tensors):
        found = function(*tensors)
        weights = flambeau.tensor(noise(*found.shape, seed=9))
        return (found * found * weights).sum()

    def slopes(tensors, create_graph=False):
        return flambeau.autograd.grad(loss(tensors), tensors, create_graph=create_graph)

    def slope_loss(tensors):
        total = 0.0
        for k, g in enumerate(slopes(tensors, create_graph=True)):
            total = total + (g * flambeau.tensor(noise(*g.shape, seed=20 + k))).sum()
        return total

    def leaves(arrays):
        return [flambeau.tensor(a, requires_grad=True) for a in arrays]

    first = slopes(leaves(arrays))
    recorded = slopes(leaves(arrays), create_graph=True)
    tensors = leaves(arrays)
    second = flambeau.autograd.grad(slope_loss(tensors), tensors)
    for k in range(len(arrays)):
        expected = differences(lambda moved: loss([flambeau.tensor(a) for a in moved]).item(), arrays, k)
        np.testing.assert_allclose(first[k].tolist(), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(recorded[k].tolist(), first[k].tolist(), rtol=1e-12, atol=1e-12)
        expected = differences(lambda moved: slope_loss(leaves(moved)).item(), arrays, k)
        np.testing.assert_allclose(second[k].tolist(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 2)),
        ((2, 2, 3), (3, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((2, 3, 2, 2), (1, 3, 2, 1)),
        ((2, 1, 2), (1, 2, 2)),
    ],
    ids=str,
)
def test_gradients_of_matmul(shapes):
    check_gradients(flambeau.matmul, *shapes)


@pytest.mark.parametrize("layout", ["t", "steps"])
def test_gradients_through_strided_operands(layout):
    if layout == "t":
        check_gradients(lambda a, b: a.t() @ b.t(), (3, 2), (2, 3))
    else:
        check_gradients(lambda a, b: a[:, ::2] @ b[::2, ::2], (2, 5), (5, 3))


@pytest.mark.parametrize(
    "function, shapes",
    [
        (linear, ((2, 3), (4, 3))),
        (linear, ((2, 3), (4, 3), (4,))),
        (linear, ((3,), (4, 3), (4,))),
        (linear, ((2, 2, 3), (4, 3), (4,))),
        (linear, ((2, 3), (3,))),
        (linear, ((2, 2, 3), (4, 3), ())),
        (lambda c, a, b: flambeau.addmm(c, a, b, beta=0.5, alpha=2), ((2, 4), (2, 3), (3, 4))),
        (lambda c, a, b: flambeau.addmm(c, a, b, beta=0.5), ((4,), (2, 3), (3, 4))),
        (lambda c, a, b: flambeau.addmm(c, a, b), ((2, 1), (2, 3), (3, 4))),
        (lambda c, a, b: flambeau.addmv(c, a, b, alpha=2), ((2,), (2, 3), (3,))),
        (lambda c, a, b: flambeau.baddbmm(c, a, b, beta=0.5), ((2, 4), (3, 2, 2), (3, 2, 4))),
        (lambda c, a, b: flambeau.addbmm(c, a, b, alpha=2), ((2, 4), (3, 2, 2), (3, 2, 4))),
        (lambda c, a, b: products.addr(c, a, b, beta=0.5, alpha=2), ((2, 3), (2,), (3,))),
        (lambda c, a, b: (c * 1).addmm_(a, b, beta=0.5, alpha=2), ((2, 4), (2, 3), (3, 4))),
        (lambda c, a, b: products.addr_(c * 1, a, b, beta=0.5), ((2, 3), (2,), (3,))),
        (flambeau.inner, ((2, 3), (2, 2, 3))),
        (flambeau.outer, ((2,), (3,))),
        (bilinear, ((2, 3), (2, 2), (4, 3, 2), (4,))),
        (lambda a, b, c: flambeau.linalg.multi_dot([a, b, c]), ((2, 3), (3, 2), (2,))),
        (lambda a, b: flambeau.tensordot(a, b, dims=([0, 2], [1, 0])), ((2, 3, 2), (2, 2, 3))),
        (lambda a, b: flambeau.einsum("bij,bjk->bik", a, b), ((2, 2, 3), (2, 3, 2))),
        (lambda a, b, c: flambeau.einsum("i,ij,j", a, b, c), ((2,), (2, 3), (3,))),
        (lambda a: flambeau.einsum("iji->j", a), ((2, 3, 2),)),
    ],
)
def test_gradients_of_other_products(function, shapes):
    check_gradients(function, *shapes)


def test_only_what_is_needed_is_kept():
    x, w = flambeau.ones(2, 3), flambeau.ones(4, 3, requires_grad=True)
    y = linear(x, w)
    with flambeau.no_grad():
        w.mul_(2)  # the gradient of w does not read w
    y.sum().backward()
    assert w.grad.tolist() == [[2.0] * 3] * 4
    y = linear(x, w)
    x.add_(1)  # but it reads x
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_grad_and_integer_products_are_not_recorded():
    w = flambeau.ones(2, 2, requires_grad=True)
    with flambeau.no_grad():
        assert not (w @ w).requires_grad
    assert (w @ w).requires_grad and (w @ w).grad_fn.name() == "MmBackward0"
    assert not (flambeau.ones(2, 2) @ flambeau.ones(2, 2)).requires_grad


def test_gradients_keep_half_types():
    x = flambeau.ones(2, 3, dtype=flambeau.bfloat16, requires_grad=True)
    w = flambeau.ones(4, 3, dtype=flambeau.bfloat16, requires_grad=True)
    bias = flambeau.ones(4, dtype=flambeau.bfloat16, requires_grad=True)
    linear(x, w, bias).sum().backward()
    assert x.grad.dtype == w.grad.dtype == bias.grad.dtype == flambeau.bfloat16
    assert bias.grad.tolist() == [2.0] * 4 and x.grad.tolist() == [[4.0] * 3] * 2


def test_in_place_on_a_view_changes_the_history_of_its_base():
    base = flambeau.tensor(noise(4, 2), requires_grad=True)
    a = flambeau.tensor(noise(2, 3), requires_grad=True)
    b = flambeau.tensor(noise(3, 2))
    whole = base * 1
    whole[1:3].addmm_(a, b, beta=3)
    whole.sum().backward()
    assert base.grad.tolist() == [[1.0] * 2, [3.0] * 2, [3.0] * 2, [1.0] * 2]
    np.testing.assert_allclose(a.grad.tolist(), np.ones((2, 2)) @ np.array(b.t().tolist()))


@pytest.mark.parametrize("shape", [(1, 1), (63, 5), (64, 128), (1000, 3), (700, 300)], ids=str)
def test_bias_gradient_sums_rows_with_the_same_bits_for_any_number_of_threads(shape):
    before = parallel.get_num_threads()
    g = flambeau.tensor(noise(*shape)).float()
    found = []
    try:
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            bias = flambeau.zeros(shape[1], requires_grad=True)
            linear(flambeau.ones(shape[0], 2), flambeau.ones(shape[1], 2), bias).backward(g)
            found.append(bias.grad.tolist())
    finally:
        parallel.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(found[0], np.array(g.tolist()).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.complex64], ids=str)
@pytest.mark.parametrize("turned", [(0,), (1,), (0, 1)], ids=str)
def test_a_weights_gradient_is_one_product_however_the_sequences_lie(turned, dtype):
    """Bits of products that are added up would differ: their sums begin anew with each sequence."""
    x, grad = (
        flambeau.tensor(noise(4, 7, count, seed=count)).to(dtype) for count in (96, 160)
    )  # (sequence, step, features)
    weight = flambeau.zeros(160, 96, dtype=dtype, requires_grad=True)

    def gradient(x, grad):
        return flambeau.autograd.grad(linear(x, weight), weight, grad)[0]

    def lies_by_steps(t):
        return t.transpose(0, 1).contiguous().transpose(0, 1)

    given = [lies_by_steps(t) if k in turned else t for k, t in enumerate((x, grad))]
    assert flambeau.equal(gradient(*given), gradient(x, grad))


# --- einsum and its kin -----------------------------------------------------------------------
EQUATIONS = [
    ("ij->ji", (2, 3)),
    ("ij", (2, 3)),
    ("ba", (2, 3)),
    ("ij->", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("iii->i", (3, 3, 3)),
    ("i,i", (3,), (3,)),
    ("i,j->ij", (3,), (2,)),
    ("i,j->ji", (3,), (2,)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bij,jk->bik", (5, 2, 3), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->i", (2, 3), (2, 3)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("ij,k->k", (2, 3), (4,)),
    ("i,ij,j->", (2,), (2, 3), (3,)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)),
    ("a,b,c->cab", (2,), (3,), (4,)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,...jk", (6, 1, 2, 3), (5, 3, 4)),
    ("i...,i->...", (3, 2, 2), (3,)),
    ("...i->...", (2, 3, 4)),
    ("b...a->a...b", (2, 3, 4)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("A,aB->Ba", (2,), (3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
def test_einsum_agrees_with_numpy(case):
    arrays = [array(*shape, seed=k) for k, shape in enumerate(case[1:])]
    found = flambeau.einsum(case[0], *map(flambeau.tensor, arrays))
    expected = np.einsum(case[0], *arrays)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_array_equal(np.array(found.tolist()).reshape(expected.shape), expected)


def test_einsum_broadcasts_sizes_of_one():
    a, b = array(2, 1), array(3, 4)
    found = flambeau.einsum("ij,jk->ik", flambeau.tensor(a), flambeau.tensor(b))
    np.testing.assert_array_equal(found.tolist(), np.broadcast_to(a, (2, 3)) @ b)
    found = flambeau.einsum("bi,bi->b", flambeau.tensor(a), flambeau.tensor(array(1, 3)))
    np.testing.assert_array_equal(found.tolist(), (a * array(1, 3)).sum(1))


def test_einsum_by_numbers():
    a, b = array(2, 3), array(3, 4)
    x, y = flambeau.tensor(a), flambeau.tensor(b)
    assert flambeau.einsum(x, [0, 1], y, [1, 2], [2, 0]).tolist() == (a @ b).T.tolist()
    assert flambeau.einsum(x, [0, 1], y, [1, 27]).tolist() == (a @ b).tolist()
    assert flambeau.einsum(x, [..., 1], [1, ...]).tolist() == a.T.tolist()
    assert flambeau.einsum("ij,jk", [x, y]).tolist() == (a @ b).tolist()


@pytest.mark.parametrize(
    "equation, shapes, message",
    [
        ("ij,jk", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1 which does not broadcast"),
        ("ij,jk", [(2, 3)], "fewer operands were provided"),
        ("ij", [(2, 3), (2, 3)], "more operands were provided"),
        ("i", [(2, 3)], r"in the equation \(1\) does not match the number of dimensions \(2\)"),
        ("ij...", [(2,)], "but ellipsis was given"),
        ("ij->iji", [(2, 3)], "output subscript i appears more than once"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear"),
        ("i1", [(2, 3)], "invalid subscript given at index 1"),
        ("ij->i1", [(2, 3)], "invalid subscript given at index 5"),
        ("i..j", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("i...j...", [(2, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
        ("ii", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("...i,...i", [(2, 3), (4, 3)], "covered by ellipsis in operand 1 has size 4"),
    ],
)  # fmt: skip
def test_einsum_refuses(equation, shapes, message):
    with pytest.raises(RuntimeError, match=message):
        flambeau.einsum(equation, *(flambeau.ones(*s) for s in shapes))


def test_einsum_refuses_missing_operands_and_bad_numbers():
    with pytest.raises(ValueError, match="at least one operand"):
        flambeau.einsum("ij")
    with pytest.raises(ValueError, match="valid range"):
        flambeau.einsum(flambeau.ones(2), [52])
    with pytest.raises(TypeError, match="operand 1"):
        flambeau.einsum("i,i", flambeau.ones(2), 3)


@pytest.mark.parametrize("dims", [0, 1, 2, ([2], [0]), ([0, 2], [1, 0]), ([-1], [0]), (2, 0)], ids=str)
def test_tensordot(dims):
    a, b = array(3, 2, 4), array(4, 3, 2)
    if dims == 2:
        b = array(2, 4, 3)
    check(flambeau.tensordot(flambeau.tensor(a), flambeau.tensor(b), dims=dims), np.tensordot(a, b, dims))


def test_tensordot_broadcasts_and_refuses():
    a, b = array(2, 3), array(1, 4)
    check(flambeau.tensordot(flambeau.tensor(a), flambeau.tensor(b), 1), a.sum(1)[:, None] * b)
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        flambeau.tensordot(flambeau.ones(2, 3), flambeau.ones(4, 5), 1)
    with pytest.raises(RuntimeError, match="same length"):
        flambeau.tensordot(flambeau.ones(2, 3), flambeau.ones(3, 5), ([1], [0, 1]))
    with pytest.raises(RuntimeError, match="dims >= 0"):
        flambeau.tensordot(flambeau.ones(2, 3), flambeau.ones(3, 5), -1)
    with pytest.raises(IndexError, match="out of range"):
        flambeau.tensordot(flambeau.ones(2, 3), flambeau.ones(3, 5), ([5], [0]))


def test_multi_dot_takes_the_cheapest_order():
    from flambeau.operations.linalg.einsum import _best_cuts

    # the example of Cormen et al.: ((A1 (A2 A3)) ((A4 A5) A6))
    cuts = _best_cuts([30, 35, 15, 5, 10, 20, 25])
    assert cuts[0, 5] == 2 and cuts[0, 2] == 0 and cuts[3, 5] == 4
    arrays = [array(3), array(3, 5), array(5, 2), array(2)]
    found = flambeau.linalg.multi_dot([flambeau.tensor(a) for a in arrays])
    check(found, np.linalg.multi_dot(arrays))
    check(flambeau.chain_matmul(*map(flambeau.tensor, arrays[1:3])), arrays[1] @ arrays[2])
    with pytest.raises(RuntimeError, match="tensors 0 and 1 with shapes .* cannot be multiplied"):
        flambeau.linalg.multi_dot([flambeau.ones(2, 3), flambeau.ones(4, 3)])
    with pytest.raises(RuntimeError, match="expected at least 2 tensors but got 1"):
        flambeau.linalg.multi_dot([flambeau.ones(2, 3)])


def test_bilinear():
    x, y, w, bias = array(2, 5, 3), array(2, 5, 4), array(6, 3, 4), array(6)
    expected = np.einsum("abi,nij,abj->abn", x, w, y) + bias
    check(bilinear(*map(flambeau.tensor, (x, y, w, bias))), expected)
    with pytest.raises(RuntimeError, match="input2 size does not match weight size: got 3 but expected 4"):
        bilinear(flambeau.ones(2, 3), flambeau.ones(2, 3), flambeau.ones(5, 3, 4))


# --- errors -----------------------------------------------------------------------------------
ONES = flambeau.ones
REFUSED = [
    (lambda: flambeau.mm(ONES(2, 3), ONES(4, 5)), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
    (lambda: flambeau.mm(ONES(2, 3), ONES(3, 5).double()), "the same dtype, but got: float != double"),
    (lambda: flambeau.mm(ONES(2), ONES(2, 3)), "self must be a matrix"),
    (lambda: flambeau.mm(ONES(2, 3), ONES(3)), "mat2 must be a matrix"),
    (lambda: flambeau.matmul(flambeau.tensor(1.0), ONES(3)), "need to be at least 1D, but they are 0D and 1D"),
    (lambda: ONES(2, 3) @ ONES(4), r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
    (lambda: ONES(2) @ ONES(4), r"inconsistent tensor size, expected tensor \[2\] and src \[4\]"),
    (lambda: ONES(2, 2, 3) @ ONES(4, 5), r"mat1 and mat2 shapes cannot be multiplied \(4x3 and 4x5\)"),
    (lambda: ONES(2, 2, 3) @ ONES(3, 3, 5), r"The size of tensor a \(2\) must match the size of tensor b \(3\)"),
    (lambda: flambeau.bmm(ONES(2, 3), ONES(2, 3, 4)), "batch1 must be a 3D tensor"),
    (lambda: flambeau.bmm(ONES(2, 3, 4), ONES(3, 4, 4)), r"batch2 tensor to be: \[2, 4\] but got: \[3, 4\]"),
    (lambda: flambeau.mv(ONES(3), ONES(3)), r"vector \+ matrix @ vector expected, got 1, 1, 1"),
    (lambda: flambeau.dot(ONES(2, 2), ONES(3)), "1D tensors expected, but got 2D and 1D tensors"),
    (lambda: flambeau.dot(ONES(2), ONES(2).double()), "same dtype, but found Float and Double"),
    (lambda: flambeau.inner(ONES(2), ONES(3)), r"last dimension must match .* but got shapes \[2\] and \[3\]"),
    (lambda: flambeau.outer(ONES(2, 2), ONES(3)), "Expected 1-D argument self, but got 2-D"),
    (lambda: flambeau.addmm(ONES(7), ONES(2, 3), ONES(3, 5)), r"size of the tensor \(5\) must match .* \(7\)"),
    (lambda: flambeau.addmm(ONES(2, 5).double(), ONES(2, 3), ONES(3, 5)), "the same dtype, but got Double and Float"),
    (lambda: flambeau.addmv(ONES(3), ONES(2, 3), ONES(3)), r"size mismatch, got input \(3\), mat \(2x3\), vec \(3\)"),
    (lambda: linear(ONES(2, 3), ONES(4, 5)), r"shapes cannot be multiplied \(2x3 and 5x4\)"),
    (lambda: linear(ONES(2, 3), ONES(4, 3), ONES(5)), r"size of the tensor \(4\) must match .* \(5\)"),
    (lambda: ONES(3).addmm_(ONES(2, 4), ONES(4, 3)), r"input tensor size \[3\] and output tensor size \[2, 3\]"),
    (lambda: ONES(2, 2).requires_grad_().addmm_(ONES(2, 2), ONES(2, 2)), "leaf Variable that requires grad"),
    (lambda: flambeau.mm(ONES(2, 3), ONES(3, 4), out=ONES(2, 4).double()), "have dtype float, but got double"),
    (lambda: flambeau.mm(ONES(2, 2).requires_grad_(), ONES(2, 2), out=ONES(2, 2)), "automatic differentiation"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_refused_types():
    with pytest.raises(TypeError, match=r"mm\(\): argument 'mat2' \(position 2\) must be Tensor, not int"):
        flambeau.mm(ONES(2, 3), 3)
    with pytest.raises(TypeError, match='missing 1 required positional arguments: "mat2"'):
        flambeau.mm(ONES(2, 3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'to'"):
        flambeau.mm(ONES(2, 3), ONES(3, 2), to=3)
    with pytest.raises(TypeError, match="multiple values for argument 'input'"):
        flambeau.mm(ONES(2, 3), input=ONES(3, 2))
    with pytest.raises(TypeError, match="argument 'beta' must be Number, not str"):
        flambeau.addmm(ONES(2, 2), ONES(2, 3), ONES(3, 2), beta="x")
    with pytest.raises(TypeError, match="argument 'bias' must be Tensor, not int"):
        linear(ONES(2, 3), ONES(4, 3), 3)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        flambeau.mm(ONES(2, 2).bool(), ONES(2, 2).bool())


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize("rows", [3, 40])
def test_products_of_halves_are_written_where_the_program_wants(dtype, rows):
    a, w, c = (flambeau.randn(s).to(dtype) for s in ((rows, 64), (64, 64), (rows, 64)))
    plain, added = a @ w.t(), flambeau.addmm(c, a, w.t(), beta=0.5)
    out = flambeau.full((rows, 64), float("nan"), dtype=dtype)
    address = out.data_ptr()
    for multiply in (flambeau.matmul, flambeau.mm):
        version = out._version
        assert multiply(a, w.t(), out=out) is out and out.equal(plain)
        assert out.data_ptr() == address and out._version > version
    assert flambeau.addmm(c, a, w.t(), beta=0.5, out=out).equal(added)
    assert c.clone().addmm_(a, w.t(), beta=0.5).equal(added)
    turned = flambeau.empty(64, rows, dtype=dtype).t()  # its rows do not lie side by side
    assert flambeau.mm(a, w.t(), out=turned).equal(plain)
    whole = flambeau.cat([a, flambeau.zeros_like(a)])
    assert flambeau.mm(whole[:rows], w.t(), out=whole[rows:]).equal(plain) and whole[:rows].equal(a)
    both = flambeau.cat([c, flambeau.zeros_like(c)])
    assert flambeau.addmm(both[:rows], a, w.t(), beta=0.5, out=both[rows:]).equal(added) and both[
        :rows
    ].equal(c)
    own = a.clone()
    assert flambeau.mm(own, w.t(), out=own).equal(plain)
