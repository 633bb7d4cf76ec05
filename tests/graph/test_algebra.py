"""Formulas keep bits, all that say so; calls that give what is there are left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from flambeau.core.loops.planning import loop_plan

import flambeau as torch
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.graph.lower import _is_pure, plan
from flambeau.graph.options import Options
from flambeau.graph.passes.algebra import EXACT, FAST, _rules, simplified, simplify
from flambeau.graph.program import Program
from flambeau.graph.trace import mapped, record

F = torch.nn.functional
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.0, -7.0, 1e-45, -1e-40, 1.2e-38, 3e38, -3e38, 6.1e-5, 65504.0, 0.1, 1 / 3,
           float("inf"), float("-inf"), float("nan")]  # fmt: skip
CONSTANTS = [0.0, -0.0, 1.0, -2.0, 4.0, 3.0, 2.0**-126, 2.0**126, 2.0**127, float("inf"), float("nan")]


def values(dtype):
    if ex.is_float(dtype):
        random = np.random.default_rng(0).normal(0, 3, 200)
        return torch.tensor([*NUMBERS, *random], dtype=torch.float64).to(getattr(torch, dtype))
    if dtype == "bool":
        return torch.tensor([False, True])
    least, most = (
        (0, (1 << ex.BITS[dtype]) - 1)
        if not ex.is_signed(dtype)
        else (-(1 << ex.BITS[dtype] - 1), (1 << ex.BITS[dtype] - 1) - 1)
    )
    return torch.tensor(
        [least, least + 1, 0, 1, 2, 77, most - 1, most] + [-1, -77] * ex.is_signed(dtype),
        dtype=getattr(torch, dtype),
    )


def computed(e, operands):
    """What a kernel of an expression gives, as it stands."""
    fused = kn.fused("tried", [e])
    inputs = [operands[k] for k in fused.inputs]
    out = torch.empty(operands[0].shape, dtype=getattr(torch, e.dtype))
    return loop_plan(fused.kernel, tuple(out.shape), [out, *inputs]).launch(inputs)


def same_bits(a, b):
    a, b = (t.numpy() if not t.dtype.is_floating_point else t.double().numpy() for t in (a, b))
    if a.dtype.kind != "f":
        return a.dtype == b.dtype and np.array_equal(a, b)
    return np.array_equal(a, b, equal_nan=True) and not (np.signbit(a) != np.signbit(b))[a == a].any()


def forms(pattern, dtype, given):
    """Expressions of a formula's left side, built without any constructor; conversions by each dtype."""
    if pattern.op in ("any", "const"):
        return [given[pattern.name]]
    if pattern.op == "number":
        return [ex.const(pattern.value, dtype)]
    if pattern.op == "cast":
        inner = forms(pattern.args[0], dtype, given)
        to = (
            [dtype]
            if pattern.name == "back"
            else [d for d in ex.BITS if d not in ("uint128", "complex64", "complex128", "bool", dtype)]
        )
        return [ex.make("cast", (a,), d) for a in inner for d in to]
    return [
        ex.make(pattern.op, args, dtype)
        for args in itertools.product(*(forms(p, dtype, given) for p in pattern.args))
    ]


def names_in(pattern):
    return (
        {pattern.name} if pattern.op in ("any", "const") else {n for p in pattern.args for n in names_in(p)}
    )


def instances(rule, dtype):
    """Left sides of a rule over inputs of a dtype, with the inputs."""
    names = sorted(names_in(rule.left))
    loose = [n for n in names if n in "xyz"]
    fixed = [n for n in names if n not in "xyz"]
    inputs = {n: ex.input(k, dtype) for k, n in enumerate(loose)}
    numbers = CONSTANTS if ex.is_float(dtype) else [0, 1, 2, 3, 7]
    for chosen in itertools.product(numbers, repeat=len(fixed)):
        given = inputs | {n: ex.const(v, dtype) for n, v in zip(fixed, chosen)}
        yield from forms(rule.left, dtype, given)


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int32", "uint8", "int64", "bool"]


def operations(pattern):
    return {pattern.op}.union(*map(operations, pattern.args))


def takes(rule, dtype):
    """Whether a formula's left side can be written in a dtype, as kernels compute it: halves are only converted."""
    used = operations(rule.left)
    if dtype in ("float16", "bfloat16"):
        return "cast" in used
    if used & {"and", "or", "not"}:
        return not ex.is_float(dtype)
    return dtype != "bool" and (ex.is_float(dtype) or not used & {"floor", "ceil", "trunc", "rint", "div"})


@pytest.mark.parametrize("formula", EXACT, ids=lambda f: f.text)
def test_exact_formulas_keep_bits(formula):
    ((rule,),) = _rules((formula,)).values()
    tried = 0
    for dtype in DTYPES:
        if not takes(rule, dtype):
            continue
        drawn = values(dtype)
        loose = [n for n in sorted(names_in(rule.left)) if n in "xyz"]
        grid = torch.meshgrid(*[drawn] * len(loose), indexing="ij")
        operands = [g.reshape(-1).contiguous() for g in grid]
        for left in instances(rule, dtype):
            (right,) = simplified([left], [formula])
            if right is not left:
                tried += 1
                assert same_bits(computed(left, operands), computed(right, operands)), (dtype, left, right)
    assert tried


BUILT = {
    "x * 1": lambda x: ex.make("mul", (x, ex.const(1, x.dtype)), x.dtype),
    "1 * x": lambda x: ex.make("mul", (ex.const(1, x.dtype), x), x.dtype),
    "x * -1": lambda x: ex.make("mul", (x, ex.const(-1, x.dtype)), x.dtype),
    "x / 1": lambda x: ex.make("div", (x, ex.const(1, x.dtype)), x.dtype),
    "x - 0": lambda x: ex.make("sub", (x, ex.const(0.0, x.dtype)), x.dtype),
    "x + -0": lambda x: ex.make("add", (x, ex.const(-0.0, x.dtype)), x.dtype),
    "x + 0": lambda x: ex.make("add", (x, ex.const(0.0, x.dtype)), x.dtype),
    "x + 0 * 1": lambda x: x + ex.make("mul", (ex.const(0.0, x.dtype), ex.const(1, x.dtype)), x.dtype),
    "-(-x)": lambda x: ex.make("neg", (ex.make("neg", (x,), x.dtype),), x.dtype),
    "a / b": lambda x: x + ex.make("div", (ex.const(1, x.dtype), ex.const(3, x.dtype)), x.dtype),
    "a conversion": lambda x: x * ex.make("cast", (ex.const(0.1, "float64"),), x.dtype),
    "of a large integer": lambda x: (
        x * ex.make("cast", (ex.const((1 << 62) + 12345678901, "int64"),), x.dtype)
    ),
    "x < x": lambda x: ex.make("select", (ex.make("lt", (x, x), "bool"), x, -x), x.dtype),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("name", BUILT)
def test_constructors_keep_bits(name, dtype):
    left, drawn = BUILT[name](ex.input(0, dtype)), values(dtype)
    (right,) = simplified([left], EXACT)
    assert same_bits(computed(left, [drawn]), computed(right, [drawn])), (left, right)


def test_what_changes_bits_stays():
    x = ex.input(0, "float32")
    for e in (
        x + 0.0,
        x * 0.0,
        x - x,
        x / 3.0,
        x / x,
        ex.call("exp", ex.call("log", x)),
        x * 0.1 * 0.3,
        x + 0.1 + 0.3,
    ):
        assert simplified([e], EXACT) == [e]
    for narrow, wide in (
        ("float32", "float16"),
        ("int32", "float32"),
        ("int64", "float64"),
        ("float16", "bfloat16"),
        ("int32", "int8"),
    ):
        e = ex.make("cast", (ex.make("cast", (ex.input(0, narrow),), wide),), narrow)
        assert simplified([e], EXACT) == [e]


def test_fast_formulas_say_what_holds_for_numbers():
    x = torch.linspace(0.1, 4, 500, dtype=torch.float64)
    for formula in FAST[len(EXACT) :]:
        ((rule,),) = _rules((formula,)).values()
        given = {
            "x": ex.input(0, "float64"),
            **{n: ex.const(v, "float64") for n, v in (("a", 0.3), ("b", 1.7), ("c", 3.0))},
        }
        (left,) = forms(rule.left, "float64", given)
        (right,) = simplified([left], FAST)
        assert right is not left
        np.testing.assert_allclose(
            computed(right + given["x"], [x]), computed(left + given["x"], [x]), rtol=1e-14
        )


# --- calls ------------------------------
X = torch.tensor(NUMBERS)


def names(function, *given, formulas=EXACT):
    program = Program(record(function, *(t.clone() for t in given))[0])
    simplify(program, formulas, _is_pure)
    return [c.name for c in program.calls]


def check(function, wanted, *given):
    assert names(function, *given) == wanted
    runner = plan(
        Program(record(function, *(t.clone() for t in given))[0]), options=Options(eager_numerics=True)
    )
    here, there = ([t.clone() for t in given] for _ in range(2))
    found, expected = tensors(runner(*here)), tensors(function(*there))
    for a, b in zip((*found, *here), (*expected, *there), strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()) and same_bits(a, b)
    for a, b in itertools.combinations(found, 2):
        assert a.data_ptr() != b.data_ptr()
    assert not {t.data_ptr() for t in found} & {t.data_ptr() for t in here}


def tensors(result):
    found = []
    mapped(result, torch.Tensor, found.append)
    return found


def test_calls_that_give_what_is_there():
    check(lambda x: (x * 1).cumsum(0), ["cumsum"], X)
    check(lambda x: (x / 1.0 - 0).cumsum(0), ["cumsum"], X)
    check(lambda x: x.neg().neg().cumsum(0), ["cumsum"], X)
    check(lambda x: x.abs().abs().cumsum(0), ["abs", "cumsum"], X)
    check(lambda x: x.relu().relu().cumsum(0), ["relu", "cumsum"], X)
    check(lambda x: x.clamp(-1, 2).clamp(-1, 2).cumsum(0), ["clamp", "cumsum"], X)
    check(lambda x: x.double().float().cumsum(0), ["cumsum"], X)
    check(lambda x: x.exp().double().float().cumsum(0), ["exp", "cumsum"], X)
    check(lambda x: (x.half().float().half() * 1).cumsum(0), ["half", "cumsum"], X)
    check(lambda x: (x**1).cumsum(0), ["cumsum"], X)
    check(lambda x: x.floor().floor().cumsum(0), ["floor", "cumsum"], X)
    check(lambda k: (k * 1 + 0).cumsum(0), ["cumsum"], torch.arange(5))
    check(lambda b: (~~b).cumsum(0), ["cumsum"], X > 0)


def test_calls_that_do_not():
    check(lambda x: (x + 0).cumsum(0), ["add", "cumsum"], X)
    check(lambda x: (x * 0).cumsum(0), ["mul", "cumsum"], X)
    check(lambda x: (x - x).cumsum(0), ["sub", "cumsum"], X)
    check(lambda x: x.half().float().cumsum(0), ["half", "float", "cumsum"], X)
    check(lambda x: x.clamp(-1, 2).clamp(-2, 2).cumsum(0), ["clamp", "clamp", "cumsum"], X)
    check(lambda k: (k * 1.0).cumsum(0), ["mul", "cumsum"], torch.arange(5))
    check(lambda k: k.float().long().cumsum(0), ["float", "long", "cumsum"], torch.arange(5))
    check(lambda x, y: (x * y).cumsum(0), ["mul", "cumsum"], X, torch.ones(X.shape))


def test_other_shapes_and_layouts_are_others():
    square = X[:16].reshape(4, 4)
    check(
        lambda x, y: (x[0] * 1 + y * 0).cumsum(1), ["mul", "mul", "add", "cumsum"][1:], square, square.clone()
    )
    check(lambda x: (x[:1] * torch.ones(4, 1)).cumsum(1), ["ones", "mul", "cumsum"], square)
    check(lambda x: (x.T * 1).cumsum(1), ["cumsum"], square)
    check(lambda x: (x[::2] * 1).reshape(-1).cumsum(0), ["mul", "cumsum"], square)  # the product has no gaps
    check(lambda x: (x.exp() * 1).T[1:].cumsum(0), ["exp", "cumsum"], square)
    check(lambda x: (x.exp() * 1).view(torch.int32).cumsum(0), ["exp", "mul", "cumsum"], square)


def test_results_are_new():
    check(lambda x: x * 1, ["mul"], X)
    check(lambda x: (x * 1, x * 1), ["mul", "mul"], X)
    check(lambda x: (x.exp() * 1).reshape(3, 7), ["exp"], X)
    check(lambda x: (lambda y: (y, y * 1, y / 1))(x.exp()), ["exp", "mul", "div"], X)


def test_writes_keep_copies():
    def to_the_source(x):
        y = x * 1
        x.add_(1)
        return y + x

    def to_the_copy(x):
        y = x * 1
        y.add_(1)
        return x + y

    def later(x):
        y = x.neg().neg()
        z = y.cumsum(0)
        x.zero_()
        return z, y + x

    for function in (to_the_source, to_the_copy, later):
        assert names(function, X) == names(function, X, formulas=())
        check(function, names(function, X), X)


def test_fast_math_is_asked_for():
    function = lambda x: ((x / 3).sin(), x.log().exp().cumsum(0), (x * 0.1) * 0.3)
    x = torch.linspace(0.1, 2, 1000)
    assert names(function, x, formulas=FAST) == ["div", "sin", "cumsum", "mul", "mul"]
    fast = torch.compile(function, options={"use_fast_math": True})
    exact = torch.compile(function)
    for _ in range(2):
        for a, b, c in zip(fast(x), exact(x), function(x), strict=True):
            torch.testing.assert_close(a, c)
            assert b.equal(c)
    assert any(not a.equal(c) for a, c in zip(fast(x), function(x), strict=True))


def test_gradients_pass_through():
    x = torch.linspace(-2, 2, 50, requires_grad=True)
    function = lambda x: ((x * 1.0).double().float().relu().relu() / 1).cumsum(0)
    compiled = torch.compile(function, options={"eager_numerics": True})
    for _ in range(2):
        a, b = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (function, compiled))
        assert a.equal(b)


def test_numbers_that_vary_are_no_constants():
    compiled = torch.compile(lambda x, k: (x * k).cumsum(0))
    for k in (1.0, 2.0, 1.0, 3.0):
        assert compiled(X[:8], k).equal((X[:8] * k).cumsum(0))
