"""What a kernel cannot be is refused where it is declared, with the function, its file and its line; and what a call gives it."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flambeau
from flambeau import kernels

WEIGHT = flambeau.ones(1)
scale = 2.0


def branches(x):
    if x > 0:
        return x
    return -x


def forgets(x):
    x * 2.0


# What is declared, with what, the error's class, and what it says.
REFUSED = [
    ("branches", "pointwise", branches, TypeError, r"pointwise kernel branches \(.*refusals.py:\d+\), line \d+.*where\(condition"),
    ("math", "pointwise", lambda x: math.exp(x), TypeError, r"in place of those of `math`"),
    ("condition", "pointwise", lambda x: kernels.where(x, x, 0.0), TypeError, r"where\(\): argument 'condition' .* bool, got float32"),
    ("numpy", "pointwise", lambda x: np.exp(x), TypeError, "does not support ufuncs"),
    ("method", "pointwise", lambda x: x.exp(), AttributeError, r"no attribute 'exp'\n.*vocabulary"),
    ("nothing", "pointwise", forgets, TypeError, "returns nothing: it ends without `return`"),
    ("text", "pointwise", lambda x: "x", TypeError, "returns a str"),
    ("none of many", "pointwise", lambda x: (), TypeError, "returns none"),
    ("composite", "pointwise", lambda x: flambeau.softmax(x, 0), TypeError, r"softmax\(\) takes tensors, not traced values"),
    ("argument", "pointwise", lambda x: flambeau.exp(x, out=x), TypeError, "'out' is none of them"),
    ("name", "pointwise", lambda x: nowhere(x), NameError, "nowhere"),  # noqa: F821
    ("tensor", "pointwise", lambda x: x * WEIGHT, TypeError, "meets a Tensor, which is no number: make it an argument"),
    ("iterated", "pointwise", lambda x: sum(x), TypeError, "cannot be iterated"),
    ("range", "pointwise", lambda x: range(x), TypeError, "no number yet"),
    ("star", "pointwise", lambda *x: x[0], TypeError, r"takes \*x: name its arguments"),
    ("default", "pointwise", lambda x, y=1.0: x, TypeError, "operand 'y' has a default"),
    ("no operand", "pointwise", lambda: 1.0, TypeError, "takes no operand"),
    ("text default", "pointwise", lambda x, *, a="b": x, TypeError, "default of 'a' must be a number, got str"),
    ("reserved", "row", lambda x, *, dim: x, TypeError, "'dim' is what callers say"),
    ("no function", "pointwise", 3, TypeError, "a function of traced values expected, got int"),
    ("an operation", "pointwise", flambeau.exp, TypeError, "got an operation"),
    ("sum in pointwise", "pointwise", lambda x: kernels.sum(x), TypeError, "along a row alone.*declare it with `row`"),
    ("prefix in row", "row", lambda x: kernels.running_sum(x), TypeError, "declare it with `scan`"),
    ("fold in scan", "scan", lambda x: kernels.running_sum(x) / kernels.sum(x), TypeError, "declare it with `row`"),
    ("no row", "row", lambda x: kernels.sum(x), TypeError, "declare it with `reduction`"),
    ("no reduction", "reduction", lambda x: x - kernels.sum(x), TypeError, "declare it with `row`"),
    ("no scan", "scan", lambda x: x, TypeError, "reads no prefix: declare it with `pointwise`"),
    ("two in a scan", "scan", lambda x, y: x, TypeError, "a scan takes one operand"),
    ("indexed without at", "indexed", lambda: 0, TypeError, "takes at and then its operands"),
    ("indexed without operand", "indexed", lambda at: at[0], TypeError, "takes no operand"),
    ("scatter without source", "scatter", lambda at, out: 0, TypeError, "at least one that is read"),
    ("too many", "pointwise", eval(f"lambda {', '.join(f'x{k}' for k in range(11))}: x0"), ValueError, "at most 10 operands"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "error", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refused_where_it_is_declared(kind, body, error, says):
    with pytest.raises(error, match=f"(?s){says}") as told:
        getattr(kernels, kind)(body)
    if callable(body) and not isinstance(body, type(flambeau.exp)) and error is not NameError:
        assert __file__ in str(told.value) or "<string>" in str(told.value)


def test_what_others_raise_gets_a_note():
    with pytest.raises(ZeroDivisionError) as told:
        kernels.pointwise(lambda x: x * (1 / 0), name="broken")
    assert any("pointwise kernel broken" in n and "1 / 0" in n for n in told.value.__notes__)


def test_options():
    with pytest.raises(ValueError, match="name must be a Python identifier, got 'a b'"):
        kernels.pointwise(lambda x: x, name="a b")
    with pytest.raises(ValueError, match="float33"):
        kernels.pointwise(lambda x: x, dtypes=["float33"])
    with pytest.raises(ValueError, match="static names 'widht', which is none"):
        kernels.indexed(lambda at, x, *, width: x[at], static=("widht",))
    with pytest.raises(ValueError, match="over must name one of"):
        kernels.scatter(lambda at, out, x: out.store(at, x[at]), over="y")


def test_a_number_that_changed_is_not_taken_over_in_silence():
    """The kernel for one dtype would be of another function than that for the next, or than the gradient."""
    global scale
    scale = 2.0

    def helper(x):
        return x * scale

    op = kernels.pointwise(lambda x: helper(x), name="scaled")
    assert op(flambeau.ones(1)).item() == 2.0
    try:
        scale = 3.0
        assert op(flambeau.ones(1)).item() == 2.0
        for x in (flambeau.ones(1, dtype=flambeau.float64), flambeau.ones(1, requires_grad=True)):
            with pytest.raises(RuntimeError, match=r"reads helper.scale, which was 2.0 .* and is 3.0 now"):
                op(x)
    finally:
        scale = 2.0
    assert op(flambeau.ones(1, dtype=flambeau.float64)).item() == 2.0


def test_derivatives():
    op = kernels.pointwise(lambda x, *, a=1.0: x * a, name="f")
    with pytest.raises(
        TypeError, match="the derivative takes 'gard'; it may name a, grad, grads, out, outs, x"
    ):
        op.derivative(lambda gard: gard)
    op.derivative(lambda grad: (grad, grad))
    with pytest.raises(TypeError, match="must return 1 gradients, one .*returned 2"):
        op(flambeau.ones(1, requires_grad=True))
    bits = kernels.pointwise(
        lambda x: kernels.bitcast(kernels.bitcast(x, "int32") | 1, "float32"), name="odd"
    )
    assert bits(flambeau.ones(1)).item() > 1.0
    with pytest.raises(
        TypeError, match=r"pointwise kernel odd \(.*\): no rule differentiates bitcast.*@odd.derivative"
    ):
        bits(flambeau.ones(1, requires_grad=True))
    for kind, body in (("row", lambda x: x / kernels.prod(x)), ("scan", lambda x: kernels.running_prod(x))):
        op = getattr(kernels, kind)(body, name="product")
        y = op(flambeau.ones(2, requires_grad=True), 0)
        with pytest.raises(TypeError, match="no rule differentiates .*@product.derivative"):
            y.sum().backward()


def test_names_that_mean_two_things():
    for kind, body in (
        ("pointwise", lambda grad: grad * 2.0),
        ("row", lambda grad: grad - kernels.sum(grad)),
    ):
        op = getattr(kernels, kind)(body, name="twice")
        with pytest.raises(TypeError, match="takes 'grad', which is an operand's name, too"):
            op.derivative(lambda grad: grad)
    row = kernels.row(lambda run, self, *, _name=1.0: run * kernels.sum(self) * _name, name="odd")
    assert row(flambeau.ones(2), flambeau.ones(2), 0).tolist() == [2.0, 2.0]


def test_numbers_of_numpy():
    two = np.float32(2.0)
    op = kernels.pointwise(lambda x: x * two + np.int64(1) - np.float64(0.5) * x, name="mixed")
    assert op(flambeau.ones(1)).item() == 2.5


SHIFTED = kernels.indexed(lambda at, x, *, by=1: x[at[0] + by], name="shifted")


def test_formulas_over_tensors():
    x = flambeau.ones(3, requires_grad=True)
    op = kernels.indexed(lambda at, x: x[at] * 2.0, name="doubled")
    put = kernels.scatter(lambda at, out, x: out.store(at, x[at], "add"), name="put")
    with pytest.raises(
        RuntimeError, match=r"scatter kernel put \(.*:\d+\) has no derivative.*@put.derivative"
    ):
        put(x, x.detach()).sum().backward()
    loop = kernels.indexed(lambda at, x, *, n: at.sum((n,), lambda k: x.get((at[0] + k,), 0)), name="loop")
    with pytest.raises(
        TypeError, match=r"indexed kernel loop \(.*\): no rule differentiates loop; .*@loop.derivative"
    ):
        loop(x, n=2).sum().backward()
    for formula, says in (
        (
            lambda grad: grad[:1],
            r"for 'x' must return a tensor of shape \(3,\), and returned one of shape \(1,\)",
        ),
        (lambda grad: grad.double(), "dtype flambeau.float32, and returned one of dtype flambeau.float64"),
        (lambda grad: grad.to("meta"), "device cpu, and returned one of device meta"),
        (lambda grad: 1.0, "must return tensors, and returned a float"),
        (lambda grad: (grad, grad), "must return 1 gradients.*returned 2"),
    ):
        op.derivative(formula)
        with pytest.raises(RuntimeError, match=rf"doubled.*its derivative \(.*refusals.py:\d+\).*{says}"):
            op(x).sum().backward()


def test_calls():
    with pytest.raises(IndexError, match=r"shifted\(\): an index is out of bounds"):
        SHIFTED(flambeau.ones(3))
    with pytest.raises(IndexError, match=r"shifted\(\): an index is out of bounds"):
        SHIFTED(flambeau.ones(3), by=-1)
    assert SHIFTED(flambeau.ones(0), by=5).shape == (0,)
    with pytest.raises(TypeError, match=r"shifted\(\): argument 'x' must be Tensor, not list"):
        SHIFTED([1.0])
    with pytest.raises(TypeError, match=r"argument 'by' must be an int or a float, not str"):
        SHIFTED(flambeau.ones(3), by="1")
    two = kernels.indexed(lambda at, x: x[at[0], 0], name="two")
    with pytest.raises(TypeError, match=r"indexed kernel two.*2 coordinates for an operand of 1 dimensions"):
        two(flambeau.ones(3))
    wrong = kernels.indexed(lambda at, x: x[at], shape=lambda x: (x.sum(),), name="wrong")
    with pytest.raises(RuntimeError, match="indexed kernel wrong.*`shape` must return a tuple of sizes"):
        wrong(flambeau.ones(3))
    row = kernels.row(lambda x, y: x * kernels.sum(y), name="r")
    x = flambeau.ones(2, 3)
    with pytest.raises(TypeError, match=r"r\(\): argument 'dim' must be int, not tuple"):
        row(x, x, (0, 1))
    with pytest.raises(TypeError, match=r"r\(\): argument 'y' must be Tensor, not float"):
        row(x, 1.0, 0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
        row(x, x)
    with pytest.raises(IndexError, match=r"r\(\): Dimension out of range"):
        row(x, x, 2)
    with pytest.raises(RuntimeError, match="size"):
        row(x, flambeau.ones(4), 1)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        row(x, flambeau.ones(3, device="meta"), 1)


def test_scatters_check_their_places():
    put = kernels.scatter(lambda at, out, index, x: out.store((index[at],), x[at], "add"), name="put")
    with pytest.raises(IndexError, match=r"put\(\): an index is out of bounds"):
        put(flambeau.zeros(3), flambeau.tensor([3]), flambeau.ones(1))
    with pytest.raises(IndexError, match=r"put\(\): an index is out of bounds"):
        put(flambeau.zeros(3), flambeau.tensor([-1]), flambeau.ones(1))
    out = flambeau.zeros(3)
    assert put(out, flambeau.tensor([1]), flambeau.ones(1)).tolist() == [0, 1, 0] and out.tolist() == [
        0,
        0,
        0,
    ]
    with pytest.raises(
        TypeError, match="must return what `store` gives, and returns an Expr|must return what `store` gives"
    ):
        kernels.scatter(lambda at, out, x: x[at], name="bad")(flambeau.zeros(3), flambeau.ones(3))
    with pytest.raises(ValueError, match="how must be set, add"):
        kernels.scatter(lambda at, out, x: out.store(at, x[at], "sub"), name="bad")(
            flambeau.zeros(3), flambeau.ones(3)
        )


def test_check_finds_what_is_wrong():
    """Each fault in an operation is found by the check that is for it."""
    x = flambeau.randn(3, 4)

    def writes(x):
        x += 1.0
        return x.clone()

    def float64_alone(x):
        return (x if x.dtype == flambeau.float64 else x * 1.5).clone()

    def memory_order(x):
        return flambeau.from_numpy(
            np.frombuffer(x.numpy().tobytes(order="A"), x.numpy().dtype).reshape(x.shape).copy()
        )

    def no_meta(x):
        return x.new_zeros((4, 3)) if x.is_meta else x * 1.0

    class Wrong(flambeau.autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 2.0)
        backward = staticmethod(lambda ctx, grad: grad)

    for op, says, options in (
        (lambda x: x * 2.0, "values", {"reference": lambda x: x * 3.0}),
        (writes, "operands", {}),
        (float64_alone, "dtypes", {}),
        (memory_order, "strides", {}),
        (no_meta, "meta", {}),
        (Wrong.apply, "gradients", {"vmap": False}),
    ):
        with pytest.raises(AssertionError, match=says):
            kernels.check(op, x, devices=(), **options)
    with pytest.raises(ValueError, match="at least one sample"):
        kernels.check(flambeau.exp)
    assert "gradients" in kernels.check(flambeau.exp, x, reference=np.exp, devices=())


def test_a_script_and_its_processes(tmp_path):
    """Declared in `__main__`, called in children that were forked and spawned."""
    script = tmp_path / "own.py"
    script.write_text(
        textwrap.dedent(
            """
            import flambeau
            from flambeau import kernels

            @kernels.pointwise
            def shifted(x, *, by=1.0):
                return x + by

            def work(op, x):
                x.requires_grad_()
                y = op(x, by=2.0)
                y.sum().backward()
                return y.tolist() + x.grad.tolist()

            if __name__ == "__main__":
                import multiprocessing
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        print(method, pool.apply_async(work, (shifted, flambeau.zeros(1))).get(60))
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "fork [2.0, 1.0]\nspawn [2.0, 1.0]\n", done.stderr


def test_starting_imports_nothing_of_it():
    """Neither kernels nor what compiles extensions."""
    code = (
        "import sys, flambeau; from flambeau.utils import cpp_extension\n"
        "names = 'flambeau.kernels', 'flambeau.utils.cpp_extension', 'setuptools', 'distutils'\n"
        "print(sorted(m for m in sys.modules if m.startswith(names)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "['flambeau.utils.cpp_extension']"
