"""Plans of products: eager's bits for any tensors of a geometry, epilogues of any expression, right operands laid out once."""

import itertools

import numpy as np
import pytest
from flambeau.core.lib.products.product_plan import ProductPlan

import flambeau
from flambeau.codegen import functions as fn
from flambeau.codegen.tiles.epilogues import traced
from flambeau.core.lib.products import matrices

F = flambeau.nn.functional
SHAPES = [
    (1, 1, 1), (7, 5, 3), (64, 64, 64), (1, 300, 70), (33, 129, 17), (40, 1, 9), (5, 0, 6), (0, 4, 5), (4, 3, 0),
    (130, 70, 1), (1, 40, 1), (3, 2500, 50), (210, 1100, 40),
]  # fmt: skip
NAMES = {"float32": flambeau.float32, "float64": flambeau.float64}


def matrix(rng, rows, columns, dtype, transposed=False):
    values = rng.standard_normal((columns, rows) if transposed else (rows, columns)).astype(dtype)
    return flambeau.tensor(values).T if transposed else flambeau.tensor(values)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("left, right", list(itertools.product((False, True), repeat=2)))
def test_a_plan_has_eagers_bits_on_other_tensors(dtype, left, right):
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a, b, bias, other = (
            (10 * t).to(getattr(flambeau, dtype))
            for t in (
                matrix(rng, m, k, "float64", left), matrix(rng, k, n, "float64", right),
                matrix(rng, 1, n, "float64")[0], matrix(rng, m, n, "float64"),
            )
        )  # fmt: skip
        product, plus, scaled = (
            ProductPlan(a, b),
            ProductPlan(a, b, bias),
            ProductPlan(a, b, other, numbers=(2, 3)),
        )
        for _ in range(2):
            assert flambeau.equal(product(a, b), a @ b)
            assert flambeau.equal(plus(a, b, bias), flambeau.addmm(bias, a, b))
            assert flambeau.equal(scaled(a, b, other), flambeau.addmm(other, a, b, beta=3, alpha=2))
            a, b, bias, other = (
                t.flip(0) if t.ndim == 1 else (t + t).as_strided(t.shape, t.stride())
                for t in (a, b, bias, other)
            )


@pytest.mark.parametrize(
    "shapes",
    [
        ((6, 9, 20), (6, 20, 7)),
        ((6, 9, 20), (20, 7)),
        ((2, 1, 9, 20), (3, 20, 7)),
        ((2, 400, 1024), (2, 1024, 32)),
    ],
)
def test_stacks(shapes):
    rng = np.random.default_rng(1)
    a, b = (flambeau.tensor(rng.standard_normal(s).astype("float32")) for s in shapes)
    for left, right in itertools.product(
        (a, a.transpose(-1, -2).contiguous().transpose(-1, -2)), (b, b[..., ::1])
    ):
        plan = ProductPlan(left, right)
        assert flambeau.equal(plan(left, right), left @ right)
        out = flambeau.empty(plan(left, right).shape)
        assert plan(left, right, out=out) is out and flambeau.equal(out, left @ right)


def test_linear():
    rng = np.random.default_rng(2)
    for rows in (1, 3, 8, 64, 300):
        for features in (5, 64, 200):
            x, w, bias = (
                matrix(rng, rows, features, "float32"),
                matrix(rng, 96, features, "float32"),
                matrix(rng, 1, 96, "float32")[0],
            )
            assert flambeau.equal(ProductPlan(x, w.T, bias)(x, w.T, bias), F.linear(x, w, bias))


# --- epilogues ------------------------------
def gelu(sum):
    return sum * 0.5 * (1.0 + fn.erf(sum * 0.5**0.5))


EPILOGUES = {
    "gelu": ((), 0, gelu, lambda s: F.gelu(s)),
    "silu": ((), 0, lambda s: s * fn.sigmoid(s), lambda s: F.silu(s)),
    "relu": ((), 0, lambda s: fn.maximum(s, fn.like(s, 0.0)), lambda s: F.relu(s)),
    "bias, residual": (("columns", "both"), 0, lambda s, b, r: (s + b) + r, lambda s, b, r: (s + b) + r),
    "bias, gelu, residual": (("columns", "both"), 0, lambda s, b, r: gelu(s + b) + r, lambda s, b, r: F.gelu(s + b) + r),
    "scale, tanh": (("columns", "columns"), 0, lambda s, b, f: fn.tanh(s * f + b), lambda s, b, f: (s * f + b).tanh()),
    "rows, numbers": (
        ("rows", "both"), 2,
        lambda s, r, o, x, y: (s - r) * x + o * y,
        lambda s, r, o: (s - r[..., None]) * 1.5 + o * -0.5,
    ),
}  # fmt: skip


def operands_for(rng, reads, shape, dtype):
    wanted = {"columns": shape[-1:], "rows": shape[:-1], "both": shape}
    return [flambeau.tensor(rng.standard_normal(wanted[r]).astype(dtype)) for r in reads]


def check(name, a, b, dtype, rng, laid=False):
    reads, count, body, eager = EPILOGUES[name]
    shape = tuple((a @ b).shape)
    operands = operands_for(rng, reads, shape, dtype)
    plan = ProductPlan(
        a, b, *operands, epilogue=traced(body, dtype, reads, count), numbers=(1.5, -0.5)[:count], laid=laid
    )
    found = plan(a, plan.lay(b) if laid else b, *operands)
    want = eager((a.double() @ b.double()), *(o.double() for o in operands))
    # rounding of the sum itself, and of what follows from it
    limit = (2e-6 if dtype == "float32" else 4e-15) * (a.shape[-1] ** 0.5 + 1) * 8
    np.testing.assert_allclose(found.double().numpy(), want.numpy(), rtol=limit, atol=limit)
    return plan, found, operands


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name, dtype):
    rng = np.random.default_rng(3)
    for m, k, n in SHAPES:
        for left, right in itertools.product((False, True), repeat=2):
            check(name, matrix(rng, m, k, dtype, left), matrix(rng, k, n, dtype, right), dtype, rng)


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues_of_stacks(name):
    rng = np.random.default_rng(4)
    for shapes in [
        ((6, 9, 20), (6, 20, 7)),
        ((6, 9, 20), (20, 7)),
        ((6, 1, 20), (20, 7)),
        ((2, 3, 4, 1030), (3, 1030, 17)),
    ]:
        a, b = (flambeau.tensor(rng.standard_normal(s).astype("float32")) for s in shapes)
        check(name, a, b, "float32", rng)


@pytest.mark.parametrize("m, k, n", [(130, 70, 50), (20, 90, 33), (210, 1100, 40)])
def test_bits_of_the_operations_one_by_one(m, k, n):
    """Where tiles compute the product, too, the sums are the same, and so is what is made of them in the same order."""
    rng = np.random.default_rng(5)
    matrices.prefer("tiles")
    try:
        a, b, bias, other = (matrix(rng, *s, "float32") for s in ((m, k), (k, n), (1, n), (m, n)))
        sums = a @ b
    finally:
        matrices.prefer("")
    for body, want in (
        (lambda s, b, r: (s + b) + r, (sums + bias) + other),
        (lambda s, b, r: fn.tanh(s * b) - r, (sums * bias).tanh() - other),
        (lambda s, b, r: s * fn.sigmoid(s + b) + r, sums * (sums + bias).sigmoid() + other),
    ):
        plan = ProductPlan(a, b, bias[0], other, epilogue=traced(body, "float32", ("columns", "both")))
        assert flambeau.equal(plan(a, b, bias[0], other), want)


@pytest.mark.parametrize("laid", [False, True])
@pytest.mark.parametrize("m, k, n", [(100, 60, 70), (400, 1100, 130), (3, 2000, 500), (1300, 200, 9)])
def test_the_same_bits_for_any_number_of_threads(m, k, n, laid):
    rng = np.random.default_rng(6)
    a, b = matrix(rng, m, k, "float32"), matrix(rng, k, n, "float32", True)
    plan, first, operands = check("bias, gelu, residual", a, b, "float32", rng, laid)
    before = flambeau.get_num_threads()
    try:
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            assert flambeau.equal(plan(a, plan.lay(b) if laid else b, *operands), first)
    finally:
        flambeau.set_num_threads(before)


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("name", ["gelu", "rows, numbers"])
def test_right_operands_laid_out_once(name, dtype):
    rng = np.random.default_rng(7)
    for m, k, n in SHAPES:
        for right in (False, True):
            a, b = matrix(rng, m, k, dtype), matrix(rng, k, n, dtype, right)
            plan, found, operands = check(name, a, b, dtype, rng, laid=True)
            weight = plan.lay(b)
            assert flambeau.equal(plan(a, weight, *operands), found)
            if b.numel():
                b.zero_()  # what has been laid out is no longer read where it stood
                assert flambeau.equal(plan(a, weight, *operands), found)


def test_an_operand_may_be_the_result():
    rng = np.random.default_rng(8)
    for k in (40, 2100):
        a, b, c = (matrix(rng, *s, "float32") for s in ((20, k), (k, 30), (20, 30)))
        plan = ProductPlan(a, b, c, epilogue=traced(lambda s, c: fn.tanh(s) + c, "float32", ("both",)))
        want = plan(a, b, c)
        assert flambeau.equal(plan(a, b, c, out=c), want) and flambeau.equal(c, want)


def test_matrices_whose_rows_are_apart():
    rng = np.random.default_rng(9)
    a, b, field = (matrix(rng, *s, "float32") for s in ((20, 40), (40, 30), (20, 50)))
    other = field[:, 5:35]
    plan = ProductPlan(a, b, other, epilogue=traced(lambda s, o: s - o, "float32", ("both",)))
    whole = ProductPlan(a, b, other.contiguous(), epilogue=traced(lambda s, o: s - o, "float32", ("both",)))
    assert flambeau.equal(plan(a, b, other), whole(a, b, other.contiguous()))


@pytest.mark.parametrize("m", [1, 4, 40])
def test_nan_and_infinity(m):
    """They come out where the operations one by one have them."""
    rng = np.random.default_rng(10)
    a, b, bias = matrix(rng, m, 50, "float32"), matrix(rng, 50, 70, "float32", True), flambeau.zeros(70)
    a[0, 3], bias[4], bias[5], bias[6] = float("nan"), float("inf"), -float("inf"), float("nan")
    if m > 1:
        a[1, 2] = float("inf")
    epilogue = traced(lambda s, b: gelu(s + b), "float32", ("columns",))
    found, want = ProductPlan(a, b, bias, epilogue=epilogue)(a, b, bias), F.gelu(a @ b + bias)
    assert flambeau.equal(found.isnan(), want.isnan()) and flambeau.equal(found.isinf(), want.isinf())
    relu = traced(lambda s, b: fn.maximum(s + b, fn.like(s, 0.0)), "float32", ("columns",))
    found, want = ProductPlan(a, b, bias, epilogue=relu)(a, b, bias), F.relu(a @ b + bias)
    assert flambeau.equal(found.isnan(), want.isnan()) and flambeau.equal(found.isinf(), want.isinf())


def test_few_rows_of_bfloat16():
    """Summed and ended in float32, rounded once, where the processor has the instruction."""
    rng = np.random.default_rng(11)
    a, b = (t.bfloat16() for t in (matrix(rng, 8, 64, "float32"), matrix(rng, 64, 48, "float32", True)))
    bias = flambeau.tensor(rng.standard_normal(48).astype("float32")).bfloat16()
    try:
        plan = ProductPlan(a, b, bias, epilogue=traced(lambda s, b: gelu(s + b), "float32", ("columns",)))
    except NotImplementedError as error:
        pytest.skip(str(error))
    want = F.gelu(a.float() @ b.float() + bias.float())
    np.testing.assert_allclose(plan(a, b, bias).float().numpy(), want.numpy(), rtol=2**-7, atol=1e-5)


# --- plans as objects ------------------------------
def test_plans_compare_and_print():
    a, b, bias = flambeau.ones(4, 7), flambeau.ones(7, 5), flambeau.ones(5)
    relu = traced(lambda s, b: fn.maximum(s + b, fn.like(s, 0.0)), "float32", ("columns",))
    plan = ProductPlan(a, b, bias, epilogue=relu)
    assert plan == ProductPlan(a + 1, b + 1, bias, epilogue=relu) and hash(plan) == hash(
        ProductPlan(a, b, bias, epilogue=relu)
    )
    assert plan != ProductPlan(a, b, bias) and plan != ProductPlan(a, b.T.contiguous().T, bias, epilogue=relu)
    assert repr(plan) == (
        "ProductPlan(flambeau.float32 (4, 7) @ (7, 5), operands (5,), Epilogue(max(add(in0, in1), 0.0), columns), by tiles)"
    )
    assert repr(ProductPlan(a.int(), b.int())) == "ProductPlan(flambeau.int32 (4, 7) @ (7, 5), by integers)"
    assert repr(ProductPlan(a[:0], b)) == "ProductPlan(flambeau.float32 (0, 7) @ (7, 5), by nothing)"
    assert plan.workspace >= 0 and plan.way == "tiles"


@pytest.mark.parametrize(
    "given, error, message",
    [
        (lambda a, b: ProductPlan(a, b.T), RuntimeError, r"shapes cannot be multiplied \(4x7 and 5x7\)"),
        (
            lambda a, b: ProductPlan(a[0], b),
            RuntimeError,
            r"two dimensions or more; got shapes \[7\] and \[7, 5\]",
        ),
        (
            lambda a, b: ProductPlan(a, b.double()),
            TypeError,
            "one dtype; got flambeau.float32 and flambeau.float64",
        ),
        (
            lambda a, b: ProductPlan(a.half(), b.half()),
            NotImplementedError,
            "no products of flambeau.float16",
        ),
        (
            lambda a, b: ProductPlan(a.to("meta"), b.to("meta")),
            NotImplementedError,
            "on the host; got one on meta",
        ),
        (
            lambda a, b: ProductPlan(a, b, b),
            RuntimeError,
            r"shape \[7, 5\] does not broadcast to the result's, \[4, 5\]",
        ),
        (lambda a, b: ProductPlan(a, b, b, b), ValueError, "at most one operand"),
        (lambda a, b: ProductPlan(a.expand(3, 4, 7), b.expand(2, 7, 5)), RuntimeError, "do not broadcast"),
        (
            lambda a, b: ProductPlan(a, b)(a, b.T.contiguous().T),
            ValueError,
            r"b has shape \[7, 5\], strides \[5, 1\]",
        ),
        (lambda a, b: ProductPlan(a, b)(a, b, b), ValueError, "0 operands; got 1"),
        (lambda a, b: ProductPlan(a, b)(a, b, out=a), ValueError, r"out is contiguous, of shape \[4, 5\]"),
        (lambda a, b: ProductPlan(a, b).lay(b), ValueError, "laid=True"),
        (lambda a, b: ProductPlan(a, b, laid=True)(a, b), ValueError, "what `lay` has returned"),
        (
            lambda a, b: ProductPlan(a, b, epilogue=BOTH),
            ValueError,
            "takes 1 operands and 0 numbers; got 0 and 0",
        ),
        (
            lambda a, b: ProductPlan(a, b, b, epilogue=BOTH),
            ValueError,
            r"operand 0, read by both, has shape \[4, 5\]",
        ),
        (
            lambda a, b: ProductPlan(a.int(), b.int(), epilogue=BOTH),
            NotImplementedError,
            "epilogues of float32",
        ),
        (
            lambda a, b: ProductPlan(a.double(), b.double(), a.double()[:, :5], epilogue=BOTH),
            TypeError,
            "flambeau.float64 are float64; got an epilogue of float32",
        ),
    ],
)
def test_what_does_not_fit(given, error, message):
    with pytest.raises(error, match=message):
        given(flambeau.ones(4, 7), flambeau.ones(7, 5))


BOTH = traced(lambda s, o: s + o, "float32", ("both",))
