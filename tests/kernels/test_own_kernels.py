"""Kernels that users declare: values, gradients, dtypes, devices, modes; what is tried is what `kernels.check` tries."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.special as special

import flambeau
import flambeau.nn.functional as F
from flambeau import kernels, nn
from flambeau.operations.declare.registry import REGISTRY


# --- one of each kind ------------------------------
@kernels.pointwise
def squareplus(x, *, b=4.0):
    """(x + √(x² + b)) / 2."""
    return (x + kernels.sqrt(x * x + b)) * 0.5


@kernels.pointwise
def polar(x, y):
    return kernels.hypot(x, y), kernels.atan2(y, x)


@kernels.pointwise(name="own_gelu")
def gelu_of_parts(x):
    return x * flambeau.sigmoid(1.702 * x) + 0 * F.softplus(x)


@kernels.row
def rms_norm(x, weight, *, eps=1e-6):
    return x * kernels.rsqrt(kernels.mean(x * x) + eps) * weight


@kernels.row
def centred(x):
    top, place = kernels.max_index(x)
    return kernels.where(kernels.position() == place, x * 2.0, x - top), kernels.sum(x * top)


@kernels.reduction
def log_sum_exp(x):
    top = kernels.max(x)
    return kernels.log(kernels.sum(kernels.exp(x - top))) + top


@kernels.reduction
def relative_error(x, y, *, floor=0.5):
    return kernels.sqrt(kernels.sum((x - y) ** 2)) / (kernels.sqrt(kernels.sum(y * y)) + floor)


@kernels.reduction
def width(x):
    return kernels.max(x) - kernels.min(x)


@kernels.scan
def running_norm(x):
    return kernels.sqrt(kernels.running_sum(x * x) + 1.0)


@kernels.scan
def two_sums(x):
    total, squares = kernels.running_sum(x), kernels.running_sum(kernels.sin(x))
    return total * squares + x, squares


@kernels.indexed(static=("width",))
def window_sum(at, x, *, width, before):
    *row, i = at
    return at.sum((width,), lambda k: x.get((*row, i + k - before), 0))


@window_sum.derivative
def _(grad, width, before):
    return window_sum(grad, width=width, before=width - 1 - before)


@kernels.scatter
def add_at(at, out, index, values):
    return out.store((index[at],), values[at], "add")


@add_at.derivative
def _(grad, index):
    return grad, None, grad[index]


@kernels.indexed(shape=lambda x, index: index.shape)
def pick(at, x, index):
    return x[index[at]]


@pick.derivative
def _(grad, x, index):
    return add_at(x.new_zeros(x.shape), index, grad), None


@kernels.indexed(static=("width",))
def weighted_window(at, x, w, *, width):
    *row, i = at
    return at.sum((width,), lambda k: x.get((*row, i + k - width // 2), 0) * w[k]) / width


@kernels.indexed(shape=lambda a, b: (a.shape[0], b.shape[1]), dtypes=(None, None))
def outer(at, a, b):
    return kernels.exp(a[at[0], 0] * b[0, at[1]]), a[at[0], 0] - b[0, 0]


@kernels.indexed(shape=lambda x, index: index.shape)
def squares_at(at, x, index):
    return x[index[at]] ** 2


@kernels.indexed
def turned(at, x):
    return kernels.sin(x[at[1], at[0]])


flambeau.manual_seed(0)
X, Y, Z = flambeau.randn(3, 4), flambeau.randn(3, 4), flambeau.randn(2, 3, 4)
SAMPLES = {
    squareplus: ([X, (Z, {"b": 1.0})], lambda x, b=4.0: (x + np.sqrt(x * x + b)) / 2),
    polar: ([(X, Y), (X, Y[0]), (X, 2.0)], lambda x, y: (np.hypot(x, y), np.arctan2(y, x))),
    gelu_of_parts: ([X], lambda x: x * special.expit(1.702 * x)),
    rms_norm: (
        [(X, Y[0], -1), (Z, Y[:, :1], 1, {"eps": 0.1}), (Y[0], Z, 2)],
        lambda x, w, dim, eps=1e-6: x / np.sqrt(np.mean(x * x + 0 * w, dim, keepdims=True) + eps) * w,
    ),
    centred: ([(X, 1), (Z, 0)], None),
    log_sum_exp: (
        [X, (X, 1), (Z, (0, 2), True), X[0, 0]],
        lambda x, dim=None, keepdim=False: special.logsumexp(x, dim, keepdims=keepdim),
    ),
    relative_error: ([(X, Y), (X, Y[0], 0), (Z, X, (0, 2))], None),
    width: ([X, (Z, 1)], lambda x, dim=None: np.ptp(x, dim)),
    running_norm: ([(X, 0), (X, -1)], lambda x, dim: np.sqrt(np.cumsum(x * x, dim) + 1)),
    two_sums: (
        [(X, 1)],
        lambda x, dim: (np.cumsum(x, dim) * np.cumsum(np.sin(x), dim) + x, np.cumsum(np.sin(x), dim)),
    ),
    window_sum: ([(X, {"width": 3, "before": 1}), (X, {"width": 20, "before": 9})], None),
    pick: ([(X[0], flambeau.tensor([2, 0, 0, 3]))], lambda x, index: x[index]),
    add_at: (
        [(X[0], flambeau.tensor([2, 0, 2]), Y[0, :3])],
        lambda out, index, values: out + np.bincount(index, values, 4),
    ),
}


@pytest.mark.parametrize("op", SAMPLES, ids=lambda op: op.__name__)
def test_as_our_own_operations(op):
    samples, reference = SAMPLES[op]
    made = kernels.check(op, *samples, reference=reference)
    assert {"operands", "dtypes", "strides", "meta", "gradients", "second gradients"} <= set(made)


@pytest.mark.parametrize(
    ("op", "sample", "reference"),
    [
        (weighted_window, (X, Y[0, :3], {"width": 3}), None),
        (outer, (X[:, :1], Y[:1]), lambda a, b: (np.exp(a * b), (a - b[0, 0]) + 0 * b)),
        (squares_at, (X[0], flambeau.tensor([[3, 3], [0, 1]])), lambda x, index: x[index] ** 2),
        (turned, (X[:, :3],), lambda x: np.sin(x).T),
    ],
)
def test_gradients_where_elements_were_read(op, sample, reference):
    assert "gradients" in kernels.check(op, sample, reference=reference, second_gradients=False)


def test_second_gradients_of_places_are_not_left_out_in_silence():
    x = flambeau.randn(5, requires_grad=True)
    (g,) = flambeau.autograd.grad(squares_at(x, flambeau.tensor([4, 4, 0])).sum(), x, create_graph=True)
    with pytest.raises(
        RuntimeError, match="the gradient of the indexed kernel squares_at .*@squares_at.derivative"
    ):
        g.sum().backward()


def test_gradients_are_added_in_parallel_where_no_two_places_meet():
    x = flambeau.randn(700, 300, requires_grad=True)
    turned_rows = kernels.indexed(
        lambda at, x: x[at[1], at[0]] * 2.0, shape=lambda x: x.shape[::-1], name="turned_rows"
    )
    weight = flambeau.randn(300, 700)
    (turned_rows(x) * weight).sum().backward()
    assert flambeau.equal(x.grad, 2 * weight.t())


def test_long_rows_are_cut_into_blocks():
    x = flambeau.randn(100_000, dtype=flambeau.float64)
    assert log_sum_exp(x).item() == pytest.approx(special.logsumexp(x.numpy()), rel=1e-12)
    assert running_norm(x, 0)[-1].item() == pytest.approx(np.sqrt((x.numpy() ** 2).sum() + 1), rel=1e-12)


# --- how they behave ------------------------------
def test_an_operation_like_others():
    assert squareplus.__doc__.startswith("(x + √") and squareplus.__module__ == __name__
    assert list(inspect.signature(squareplus).parameters) == ["x", "b", "out"]
    assert list(inspect.signature(rms_norm).parameters) == ["x", "weight", "dim", "eps", "out"]
    x = flambeau.ones(3, requires_grad=True)
    assert squareplus(x).grad_fn.name() == "SquareplusBackward0"
    assert gelu_of_parts(x).grad_fn.name() == "OwnGeluBackward0"
    assert squareplus(flambeau.arange(3)).dtype == flambeau.get_default_dtype()
    with pytest.raises(NotImplementedError, match=r"squareplus\(\).*complex64"):
        squareplus(flambeau.ones(2, dtype=flambeau.complex64))
    assert rms_norm(flambeau.arange(3), flambeau.arange(3), 0).dtype == flambeau.get_default_dtype()


def test_the_registry_does_not_know_them_and_names_may_be_those_of_operations():
    before = set(REGISTRY)

    @kernels.pointwise
    def exp(x):
        return x + 1.0

    assert set(REGISTRY) == before
    assert exp(flambeau.zeros(1)).item() == 1.0 and flambeau.exp(flambeau.zeros(1)).item() == 1.0
    assert flambeau.exp(flambeau.ones(1)).item() == pytest.approx(np.e)


def test_declared_again_under_the_same_name():
    """As a notebook does."""
    made = []
    for factor in (2.0, 3.0):

        @kernels.pointwise
        def scaled(x):
            return x * factor  # noqa: B023

        made.append(scaled)
        assert scaled(flambeau.ones(1)).item() == factor
    assert made[0](flambeau.ones(1)).item() == 2.0


def test_several_results_and_dtypes():
    @kernels.pointwise(dtypes=kernels.NUMERIC)
    def parts(x, y):
        return x * y, x > y

    product, larger = parts(flambeau.tensor([1, 5]), flambeau.tensor([2, 3]))
    assert product.dtype == flambeau.int64 and larger.dtype == flambeau.bool
    assert product.tolist() == [2, 15] and larger.tolist() == [False, True]
    with pytest.raises(NotImplementedError, match="bool"):
        parts(flambeau.tensor([True]), flambeau.tensor([True]))

    @kernels.pointwise(dtypes=[flambeau.int32])
    def bits(x):
        return (x << 2) ^ ~x

    assert bits(flambeau.tensor([5], dtype=flambeau.int32)).item() == (5 << 2) ^ ~5


def test_complex_numbers():
    @kernels.pointwise(dtypes=kernels.COMPLEX)
    def turned(z):
        return z * z * 1j + kernels.conj(z)

    z = flambeau.randn(3, dtype=flambeau.complex128, requires_grad=True)
    with flambeau.no_grad():
        given = z.detach().numpy()
        assert np.allclose(turned(z).numpy(), given**2 * 1j + given.conj())
    assert flambeau.autograd.gradcheck(turned, (z,))


def test_operators_of_python():
    @kernels.pointwise
    def mixed(x, y):
        return abs(x) ** 1.5 + 2.0**y + x % y - 3.0 % y + (+x) / (1.0 + abs(y))

    x, y = X.double().numpy(), Y.double().numpy()
    wanted = abs(x) ** 1.5 + 2.0**y + x % y - 3.0 % y + x / (1 + abs(y))
    assert np.allclose(mixed(X.double(), Y.double()).numpy(), wanted)


def test_an_own_formula_in_place_of_differentiation():
    @kernels.pointwise
    def straight(x, *, slope=1.0):
        return kernels.rint(x) * slope

    @straight.derivative
    def _(grad, slope):
        return grad * slope

    x = flambeau.randn(3, requires_grad=True)
    straight(x, slope=3.0).sum().backward()
    assert x.grad.tolist() == [3.0] * 3
    with pytest.raises(RuntimeError, match="before the first gradient"):
        straight.derivative(lambda grad: grad)

    @kernels.row
    def rounded(x):
        return kernels.rint(x) + 0.0 * kernels.sum(x)

    @rounded.derivative
    def _(grad, x, dim):
        return grad + x.sum(dim, True)

    x.grad = None
    rounded(x, 0).sum().backward()
    assert flambeau.allclose(x.grad, 1 + x.detach().sum().expand(3))


def test_without_gradient():
    @kernels.pointwise(differentiable=False)
    def half(x):
        return x * 0.5

    assert not half(flambeau.ones(2, requires_grad=True)).requires_grad
    with pytest.raises(AssertionError, match="no result has one"):
        kernels.check(half, X)
    kernels.check(half, X, gradients=False)


def test_forward_mode_and_function_transforms():
    x, v = X.double(), Y.double()
    _, along = flambeau.func.jvp(squareplus, (x,), (v,))
    step = (squareplus(x + 1e-6 * v) - squareplus(x - 1e-6 * v)) / 2e-6
    assert flambeau.allclose(along, step, rtol=1e-6)
    grad = flambeau.func.grad(lambda x: rms_norm(x, v[0], 1).sum())(x)
    assert flambeau.allclose(
        grad, flambeau.autograd.functional.jacobian(lambda x: rms_norm(x, v[0], 1).sum(), x)
    )


def test_modes_and_classes_see_them():
    seen = []

    class Names(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Names():
        squareplus(X)
        rms_norm(X, Y[0], 1)
        running_norm(X, 0)
        pick(X[0], flambeau.tensor([1]))
    assert [op for op in seen if op in SAMPLES] == [squareplus, rms_norm, running_norm, pick]

    class Own(flambeau.Tensor):
        pass

    own = X.as_subclass(Own)
    for result in (squareplus(own), rms_norm(own, Y[0], 1), running_norm(own, 0)):
        assert type(result) is Own


def test_autocast_leaves_them_alone():
    with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
        assert squareplus(X).dtype == flambeau.float32 and rms_norm(X, Y[0], 1).dtype == flambeau.float32


def test_pickled_and_copied():
    for op in SAMPLES:
        if op.__name__ not in ("own_gelu",):
            assert pickle.loads(pickle.dumps(op)) is op and copy.deepcopy(op) is op is copy.copy(op)
    model = nn.Sequential(nn.Linear(2, 2))
    model.activation = squareplus
    assert copy.deepcopy(model).activation is squareplus

    @kernels.pointwise
    def local(x):
        return x

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


def test_one_kernel_for_all_numbers_and_one_for_equal_bodies():
    from flambeau.codegen import build

    def declare():
        return kernels.pointwise(lambda x, *, a: x * a + 0.1234567, name="first")

    first, second = declare(), declare()
    first(X, a=1.0)
    before = dict(build.statistics), len(build._addresses)
    first(X, a=2.0), second(X, a=3.0)
    assert (build.statistics, len(build._addresses)) == before


def test_a_kernel_within_a_kernel():
    @kernels.pointwise
    def twice(x):
        return squareplus(squareplus(x, b=1.0))

    assert flambeau.allclose(twice(X), squareplus(squareplus(X, b=1.0)))


def test_threads_declare_and_call():
    from concurrent.futures import ThreadPoolExecutor

    def work(k):
        op = kernels.row(lambda x: x - kernels.mean(x) * float(k), name=f"shifted{k}")
        x = flambeau.ones(5, requires_grad=True)
        op(x, 0).sum().backward()
        return x.grad[0].item()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == pytest.approx([1.0 - k for k in range(8)], abs=1e-6)


def test_the_page_lists_what_bodies_may_call():
    """docs/extending.md holds `vocabulary()`, between marks."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    shown = page.partition("<!-- vocabulary -->\n")[2].partition("<!-- end -->")[0]
    assert shown == kernels.vocabulary()


def test_every_public_name_is_shown():
    from flambeau.utils import cpp_extension

    words = {word.name for word in importlib.import_module("flambeau.kernels._vocabulary").WORDS}
    for module, names in ((kernels, set(kernels.__all__) - words), (cpp_extension, cpp_extension.__all__)):
        bare = [
            n
            for n in names
            if callable(getattr(module, n)) and ">>>" not in (getattr(module, n).__doc__ or "")
        ]
        assert not bare, bare
