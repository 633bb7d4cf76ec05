"""Plans as objects: what an eager call finds out once, launched again on other tensors, with the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flambeau.core.call.pointwise import PointwiseOp
from flambeau.core.loops.planning import loop_plan, plan_of, row_plan
from flambeau.core.loops.plans import Geometry, LoopPlan
from flambeau.core.loops.rows import RowOp

import flambeau
from flambeau.codegen import expr as ex
from flambeau.codegen import kernels as kn
from flambeau.codegen.build import address
from flambeau.codegen.schedule_cpu_rows import lanes_of
from flambeau.operations.declare.registry import REGISTRY

POINTWISE = [e for e in REGISTRY.values() if isinstance(e.function, PointwiseOp)]
ROWS = [e for e in REGISTRY.values() if isinstance(e.function, RowOp)]
name_of = lambda e: e.name


def leaf(number, dtype="float32"):
    return ex.input(number, dtype)


def bits(tensors):
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    return [
        (t.dtype, t.shape, t.stride(), t.contiguous().view(-1).view(flambeau.uint8).numpy().tobytes())
        for t in tensors
    ]


def drawn(entry, seed, shape, dtype, raw):
    """A tensor from the operation's domain; of operands that keep their own dtype, a mask or a number of a class."""
    rng = np.random.default_rng(seed)
    low, high = entry.domain
    if raw in ("condition", "mask"):
        return flambeau.from_numpy(rng.random(shape) < 0.5)
    if raw:
        return flambeau.from_numpy(rng.integers(0, 3, shape))
    return flambeau.from_numpy(np.asarray(rng.uniform(low, high, shape))).to(getattr(flambeau, dtype))


# Layouts of a tensor of shape (6, 5, 8): as it is, with dimensions exchanged, with steps, broadcast along one dimension, a row alone.
LAYOUTS = {
    "contiguous": lambda make: make((6, 5, 8)),
    "transposed": lambda make: make((8, 5, 6)).permute(2, 1, 0),
    "strided": lambda make: make((6, 5, 16))[:, :, ::2],
    "broadcast": lambda make: make((6, 1, 8)).expand(6, 5, 8),
    "row": lambda make: make((8,)),
}


def operands_of(entry, seed, layouts, dtypes):
    """The operands of a pointwise operation."""
    raw, names = entry.function.declaration.raw, entry.function.declaration.operands
    return [
        layout(lambda s, k=k, n=n, d=d: drawn(entry, 10 * seed + k, s, d, n if n in raw else ""))
        for k, (n, layout, d) in enumerate(zip(names, layouts, dtypes))
    ]


def required(entry):
    parameters = entry.function.__signature__.parameters.items()
    names = entry.function.declaration.operands
    return {n: 0.5 for n, p in parameters if p.default is p.empty and n not in names}


@pytest.mark.parametrize("entry", POINTWISE, ids=name_of)
def test_pointwise_operations_kept(entry):
    """Each operation, over operands in every layout, in the dtypes that it takes."""
    op, declaration = entry.function, entry.function.declaration
    some = [
        d for d in ("float32", "bfloat16", "int64", "uint8", "bool", "complex64") if d in declaration.dtypes
    ]
    assert some
    for dtype in some[:3]:
        for shift in range(len(LAYOUTS)):
            layouts = (list(LAYOUTS.values())[shift:] + list(LAYOUTS.values())) * 2
            dtypes = [dtype] * len(declaration.operands)
            first, second = (operands_of(entry, seed, layouts, dtypes) for seed in (1, 2))
            plan = plan_of(op, *first, **required(entry))
            assert bits(plan.launch(second)) == bits(op(*second, **required(entry)))


@pytest.mark.parametrize("entry", ROWS, ids=name_of)
def test_row_operations_kept(entry):
    """Each operation, along the last and along another dimension, over short rows and over rows that are cut into blocks."""
    op, declaration = entry.function, entry.function.declaration
    some = [d for d in ("float32", "float64", "int64", "bool") if d in declaration.dtypes]
    assert some
    names = list(declaration.inputs)[
        : len(declaration.inputs) - (len(declaration.inputs) > 1 and _has_origin(op))
    ]
    shapes = [((6, 5, 8), 2), ((6, 5, 8), 1), ((40000,), 0), ((300, 1000), 0), ((70, 5), 0)]
    for dtype in some[:2]:
        for shape, dim in shapes:
            per_row = [1 if d == dim else n for d, n in enumerate(shape)]
            both = []
            for seed in (1, 2):
                sizes = [per_row if n in declaration.per_row else shape for n in names]
                both.append(
                    tuple(
                        drawn(entry, 10 * seed + k, s, dtype, n if n in declaration.raw else "")
                        for k, (n, s) in enumerate(zip(names, sizes))
                    )
                )
            plan = plan_of(op, both[0], dim)
            expected = op.over(both[1], dim)
            assert bits(plan.launch(both[1])) == bits(
                tuple(expected) if isinstance(expected, tuple) else expected
            )


def _has_origin(op):
    """Whether the kernel reads the row's first element as one input more, which callers do not give."""
    with pytest.raises(TypeError, match=r"(\d+) tensors expected") as error:
        op.over(())
    return int(str(error.value).split(": ")[1].split()[0]) < len(op.declaration.inputs)


@pytest.mark.parametrize("keepdim", [False, True])
def test_dims_and_dtypes_of_reductions(keepdim):
    x, y = flambeau.randn(4, 5, 6), flambeau.randn(4, 5, 6)
    for dim in (None, (0, 1), (1, 2), -1):
        plan = plan_of(flambeau.sum, x, dim, keepdim, flambeau.float64)
        assert bits(plan.launch([y])) == bits(flambeau.sum(y, dim, keepdim, dtype=flambeau.float64))


def test_numbers_stay_in_the_plan():
    x, y = flambeau.arange(5), flambeau.arange(5) + 7
    assert bits(plan_of(flambeau.add, x, 2.5).launch([y])) == bits(y + 2.5)
    assert bits(plan_of(flambeau.add, x, x, alpha=3).launch([y, x])) == bits(flambeau.add(y, x, alpha=3))
    assert bits(plan_of(flambeau.mul, x, 1j).launch([y])) == bits(y * 1j)


# --- kernels of any width ---
def test_forty_operands_twenty_results_thirty_numbers():
    inputs = [leaf(k, "float64") for k in range(40)]
    numbers = [ex.param(k, "float64") for k in range(30)]
    results = [
        inputs[2 * k] * numbers[k] + inputs[2 * k + 1] * numbers[k + 10] - numbers[(k + 20) % 30]
        for k in range(20)
    ]
    found = kn.fused("wide", results)
    assert found.inputs == tuple(range(40)) and found.params == tuple(range(30))
    shapes = [(4, 5, 6), (5, 1), (6,), (4, 1, 1), ()]
    given = [flambeau.randn(shapes[k % 5], dtype=flambeau.float64) for k in range(40)]
    scalars = [0.25 * k - 3 for k in range(30)]
    like = Geometry(flambeau.float64, (4, 5, 6), (1, 24, 4))
    plan = loop_plan(found.kernel, (4, 5, 6), [like] * 20 + given, scalars)
    for k, r in enumerate(plan.launch(given)):
        expected = given[2 * k] * scalars[k] + given[2 * k + 1] * scalars[k + 10] - scalars[(k + 20) % 30]
        assert r.stride() == (1, 24, 4)
        assert flambeau.equal(r, expected.expand(4, 5, 6))


def test_forty_operands_along_rows():
    inputs = [leaf(k, "float64") for k in range(30)]
    results = [inputs[k] - kn.mean(inputs[k] * inputs[(k + 1) % 30]) for k in range(10)]
    found = kn.fused("wide rows", results)
    given = [flambeau.randn(7, 9, dtype=flambeau.float64) for _ in range(11)]
    plan = row_plan(found.kernel, (7, 9), 1, given[:10] + given)
    for k, r in enumerate(plan.launch(given)):
        flambeau.testing.assert_close(r, given[k] - (given[k] * given[k + 1]).mean(1, True))


def test_sixty_four_dimensions():
    """Dimensions of which no two merge."""
    shape = (2,) * 10 + (1,) * 54
    x = flambeau.arange(1024.0).view(shape).flip(0)
    y = flambeau.arange(1024.0).view(2, 2, 256, *(1,) * 59, 1).expand(2, 2, 256, *(1,) * 60)[..., 0]
    assert x.ndim == 64
    turned = x.permute(*reversed(range(10)), *range(10, 64))
    found = kn.fused("sum", [leaf(0) + leaf(1)]).kernel
    plan = loop_plan(found, shape, [flambeau.empty(shape), turned, x])
    assert flambeau.equal(plan.launch([turned, x]), turned + x)
    assert y.ndim <= 64


def norm_of_gelu():
    """layer_norm(gelu(x + b) + r): two levels of folds over what is costly."""
    h = leaf(0) + leaf(1)
    g = 0.5 * h * (1.0 + ex.call("erf", h * 0.7071067811865476)) + leaf(2)
    d = g - kn.mean(g)
    return d / ex.sqrt(kn.mean(d * d) + 1e-5)


@pytest.mark.parametrize("shape, dim", [((50, 64), 1), ((64, 50), 0), ((9, 5000), 1)])
def test_a_norm_of_an_activation_in_one_kernel(shape, dim):
    x, r = flambeau.randn(shape), flambeau.randn(shape)
    b = flambeau.randn(shape[1])
    F = flambeau.nn.functional
    g = (F.gelu(x + b) + r).movedim(dim, -1)
    expected = F.layer_norm(g, (shape[dim],)).movedim(-1, dim)
    plan = row_plan(kn.fused("norm", [norm_of_gelu()]).kernel, shape, dim, [x, x, b, r])
    flambeau.testing.assert_close(plan.launch([x, b, r]), expected, rtol=1e-4, atol=1e-5)


def test_rows_in_two_pieces():
    """What batch norm does: rows of batch and place, results as long as those and one a row."""
    x = flambeau.randn(6, 4, 5, 7, dtype=flambeau.float64)
    v = leaf(0, "float64")
    centred = v - kn.mean(v)
    found = kn.fused("normalised", [centred / ex.sqrt(kn.mean(centred * centred) + 1e-5), kn.mean(v)]).kernel
    mean = Geometry(flambeau.float64, (1, 4, 1, 1), (4, 1, 1, 1))
    plan = row_plan(found, x.shape, (0, 2, 3), [x, mean, x])
    normalised, mean = plan.launch([x])
    flambeau.testing.assert_close(normalised, flambeau.nn.functional.batch_norm(x, None, None, training=True))
    flambeau.testing.assert_close(mean, x.mean((0, 2, 3), True))


def test_a_row_that_is_all_one_value_is_written_in_full():
    x = flambeau.randn(5, 6)
    found = kn.fused("spread", [kn.max(leaf(0))]).kernel
    for dim in (0, 1):
        plan = row_plan(found, (5, 6), dim, [x, x])
        assert flambeau.equal(plan.launch([x]), x.amax(dim, True).expand(5, 6))


def test_long_rows_of_fused_reductions_are_cut():
    """A sum over what is computed on the way, in blocks, for any number of threads; not where an input besides goes into the result."""
    x, scale = flambeau.randn(3, 70000), flambeau.randn(3, 1)
    total = kn.sum(ex.call("exp", leaf(0)))
    alone = row_plan(kn.fused("total", [total]).kernel, x.shape, 1, [scale, x])
    scaled = row_plan(kn.fused("scaled", [total * leaf(1)]).kernel, x.shape, 1, [scale, x, scale])
    assert "blocks" in repr(alone) and "blocks" not in repr(scaled)
    flambeau.testing.assert_close(alone.launch([x]), x.exp().sum(1, True))
    flambeau.testing.assert_close(scaled.launch([x, scale]), x.exp().sum(1, True) * scale)


def test_kernels_settled_before_they_are_compiled():
    """Steps of other lengths add in another order: terms that only the order keeps apart tell which."""
    seen = []

    def with_lanes(count):
        def settle(plan, kernels):
            seen.append((plan.along, plan.loop_sizes()[-2:], plan.block, len(kernels)))
            return tuple(k._replace(lanes=count) for k in kernels)

        return settle

    kernel = kn.fused("summed", [kn.sum(leaf(0))]).kernel
    row = np.zeros(64, np.float32)
    row[[0, 16, 8]] = 1e8, -1e8, 1.0  # with 8 lanes the first is met by 1 before -1e8 is there, with 16 after
    x, out = flambeau.from_numpy(row), flambeau.empty(())
    for lanes, wanted in ((8, 0.0), (16, 1.0)):
        plan = row_plan(kernel, (64,), 0, [out, x], settle=with_lanes(lanes))
        assert plan.launch([x]).item() == wanted
        assert lanes_of(kernel._replace(lanes=lanes)) == lanes
    long = flambeau.ones(1 << 16)
    assert row_plan(kernel, (1 << 16,), 0, [out, long], settle=with_lanes(0)).launch([long]).item() == 1 << 16
    assert seen == [(True, (1, 64), 0, 1)] * 2 + [(True, (1, 1 << 16), 16384, 2)]

    def refuse(plan, kernels):
        raise ValueError("another order")

    with pytest.raises(ValueError, match="another order"):
        row_plan(kernel, (64,), 0, [out, x], settle=refuse)


def test_rows_without_elements():
    x, scale = flambeau.empty(3, 0), flambeau.randn(3, 1)
    found = kn.fused("nothing", [kn.sum(leaf(0)) + leaf(1) * 2.0]).kernel
    for shape, dim, a, s in (((3, 0), 1, x, scale), ((0, 3), 0, x.T, scale.T)):
        plan = row_plan(found, shape, dim, [s, a, s])
        assert flambeau.equal(plan.launch([a, s]), s * 2)


def test_any_number_of_threads_gives_the_same_bits():
    x, row, column = flambeau.randn(300, 1000), flambeau.randn(1000), flambeau.randn(300, 1)
    pointwise = kn.fused("p", [ex.call("tanh", leaf(0) * leaf(1)) + leaf(2), leaf(0) * leaf(2)]).kernel
    rows = kn.fused("r", [norm_of_gelu()]).kernel
    total = kn.fused("t", [kn.sum(leaf(0) * leaf(0))]).kernel
    plans = [
        (loop_plan(pointwise, x.shape, [x, x, x, row, column]), [x, row, column]),
        (loop_plan(pointwise, x.shape, [x.T.clone().T, x, x, row, column]), [x, row, column]),
        (row_plan(rows, x.shape, 1, [x, x, row, x]), [x, row, x]),
        (row_plan(rows, x.shape, 0, [x, x, row, x]), [x, row, x]),
        (row_plan(total, (300000,), 0, [x[0, :1], x.view(-1)]), [x.view(-1)]),
    ]
    before, found = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 64):
            flambeau.set_num_threads(threads)
            found.append([bits(plan.launch(given)) for plan, given in plans])
    finally:
        flambeau.set_num_threads(before)
    assert found[0] == found[1] == found[2] == found[3]


def test_offsets():
    """Operands that begin elsewhere than what is given: parts of one value."""
    whole = flambeau.arange(24.0).view(4, 6)
    left, right = (Geometry(flambeau.float32, (4, 3), (6, 1), k) for k in (0, 3))
    plan = loop_plan(
        kn.fused("product", [leaf(0) * leaf(1)]).kernel, (4, 3), [flambeau.empty(4, 3), left, right]
    )
    start = whole[:, :3]
    assert flambeau.equal(plan.launch([start, start]), whole[:, :3] * whole[:, 3:])
    beyond = loop_plan(
        kn.fused("copy", [leaf(0)]).kernel, (4, 3), [flambeau.empty(4, 3), right._replace(offset=4)]
    )
    with pytest.raises(ValueError, match=r"reaches from element 4 to 24 of a storage of 96 bytes"):
        beyond.launch([start])


# --- what plans are ---
def test_the_same_structure_is_the_same_kernel():
    """Bodies that were traced apart, before and after the compiler dropped its table of expressions."""
    first = kn.fused("first", [norm_of_gelu()])
    mean = kn.mean(leaf(0) + leaf(1))
    ex.forget()
    again = kn.fused("again", [norm_of_gelu()])
    assert first.kernel.text() == again.kernel.text()
    apart = [(leaf(0) + leaf(1)) - mean]  # the sum stands there twice, as two objects
    ex.forget()
    x = leaf(0) + leaf(1)
    assert kn.fused("apart", apart).kernel.text() == kn.fused("one", [x - kn.mean(x)]).kernel.text()


def test_leaves_outlive_what_is_built_meanwhile():
    """A kernel for another device may be lowered long after it was traced, and finds its leaves by what they are."""
    leaves = [ex.make("coordinate", (), "int32", 7), ex.input(0, "float32")]
    address(kn.fused("between", [leaf(0) * 0.40625 + 3.0]).kernel)
    assert ex.make("coordinate", (), "int32", 7) is leaves[0] and ex.input(0, "float32") is leaves[1]


def test_plans_compare_by_structure():
    x, y = flambeau.randn(4, 6), flambeau.randn(4, 6)
    add = plan_of(flambeau.add, x, y)
    assert add == plan_of(flambeau.add, y, x) and hash(add) == hash(plan_of(flambeau.add, y, x))
    others = [
        plan_of(flambeau.add, x, y, alpha=2),
        plan_of(flambeau.sub, x, y),
        plan_of(flambeau.add, x, y[0]),
        plan_of(flambeau.add, x.double(), y.double()),
        plan_of(flambeau.add, x[:3], y[:3]),
        plan_of(flambeau.sum, x, 1),
        plan_of(flambeau.sum, x, 1, True),
    ]
    assert len({add, *others}) == len(others) + 1
    assert add != "add"


def test_plans_as_text():
    x = flambeau.randn(4, 6)
    assert repr(plan_of(flambeau.add, x, x[:, :1])) == (
        "LoopPlan(add: loops 4 x 6; float32 (6, 1) c from float32 (6, 1) c, float32 (6, 0) b)"
    )
    assert repr(plan_of(flambeau.sum, x, 0)) == (
        "RowLoopPlan(sum: 6 rows of 4, lanes across; float32 (1, 0, 0) c from float32 (1, 0, 6) c)"
    )
    plan = plan_of(flambeau.add, x, x[:, :1])
    assert plan.operands[2] == Geometry(flambeau.float32, (4, 1), (6, 1))
    assert plan.loop_sizes() == (4, 6) and plan.accesses() == ("c", "c", "b")


def test_results_that_are_given():
    x, y = flambeau.randn(5, 6), flambeau.randn(5, 6)
    plan, expected = plan_of(flambeau.mul, x, y), x * y
    out = flambeau.empty(5, 6)
    version = out._version
    assert plan.launch([x, y], out=out) is out and flambeau.equal(out, expected)
    assert out._version == version + 1
    assert plan.launch([x, y], out=x) is x and flambeau.equal(x, expected)


def test_errors():
    x = flambeau.randn(5, 6)
    plan, rows = plan_of(flambeau.add, x, x), plan_of(REGISTRY["softmax"].function, (x,), 1)
    with pytest.raises(TypeError, match=r"add.launch\(\): 2 tensors expected, got 1"):
        plan.launch([x])
    with pytest.raises(TypeError, match=r"input 1 must be Tensor, not float"):
        plan.launch([x, 1.0])
    with pytest.raises(
        ValueError, match=r"input 0 is planned as .*float32 of shape \[5, 6\] with strides \[6, 1\], got"
    ):
        plan.launch([x.double(), x])
    with pytest.raises(ValueError, match=r"input 1 .* got .* of shape \[5, 1\]"):
        plan.launch([x, x[:, :1]])
    with pytest.raises(ValueError, match=r"planned on cpu, got one on meta"):
        plan.launch([x, x.to("meta")])
    with pytest.raises(RuntimeError, match=r"shares elements with input 0"):
        rows.launch([x], out=x)
    long = flambeau.randn(40)
    with pytest.raises(RuntimeError, match=r"shares elements with input 1"):
        plan.launch([x, long[:30].view(5, 6)], out=long[3:33].view(5, 6))
    with pytest.raises(RuntimeError, match=r"requires grad"):
        plan.launch([x, x], out=flambeau.randn(5, 6).requires_grad_())
    with pytest.raises(NotImplementedError, match="not implemented for"):
        plan_of(flambeau.add, x.to(flambeau.float8_e4m3fn), x.to(flambeau.float8_e4m3fn))
    with pytest.raises(NotImplementedError, match="scattered"):
        plan_of(flambeau.sum, flambeau.randn(2, 3, 4, 5, 6)[:, ::2, ::2, ::2, ::2], (0, 2, 4))
    with pytest.raises(TypeError, match="a pointwise operation, a reduction or a row function"):
        plan_of(flambeau.matmul, x, x)
    with pytest.raises(TypeError, match="is made by"):
        LoopPlan()


def test_errors_of_kernels():
    x = flambeau.randn(5, 6)
    add = kn.fused("sum", [leaf(0) + leaf(1)]).kernel
    with pytest.raises(TypeError, match=r"loop_plan\(\): sum has 1 results and 2 inputs, got 2 operands"):
        loop_plan(add, (5, 6), [x, x])
    with pytest.raises(TypeError, match=r"operand 2 of sum is float32, got float64"):
        loop_plan(add, (5, 6), [x, x, x.double()])
    with pytest.raises(ValueError, match=r"operand 2 of shape \[4\] does not broadcast to \[5, 6\]"):
        loop_plan(add, (5, 6), [x, x, x[0, :4]])
    with pytest.raises(
        ValueError, match=r"result 0 of sum would be written more than once along dimension 0"
    ):
        loop_plan(add, (5, 6), [x[0], x, x])
    with pytest.raises(TypeError, match=r"sum has 0 scalars, got 1"):
        loop_plan(add, (5, 6), [x, x, x], [1.0])
    with pytest.raises(ValueError, match=r"centred: result 0 varies along the row"):
        row_plan(kn.fused("centred", [leaf(0) - kn.mean(leaf(0))]).kernel, (5, 6), 1, [x[:, :1], x])
    with pytest.raises(
        TypeError, match=r"input 0 is of one dtype in all expressions, got float32 and float64"
    ):
        kn.fused("mixed", [leaf(0), leaf(0, "float64")])
    with pytest.raises(RuntimeError, match="more elements than can be counted"):
        loop_plan(add, (1 << 40, 1 << 40), [x, x, x])
    scattered = flambeau.randn(2, 3, 4, 5, 6)[:, ::2, ::2, ::2, ::2]
    with pytest.raises(NotImplementedError, match="lie in 3 pieces"):
        total = kn.fused("total", [kn.sum(leaf(0))]).kernel
        row_plan(total, scattered.shape, (0, 2, 4), [scattered[:1, :, :1, :, :1], scattered])


def test_a_costly_part_is_computed_once():
    """The norm's two passes of folds and its result read one activation, left where the result stands."""
    from flambeau.codegen.irtext import Function, Module
    from flambeau.codegen.schedule_cpu_frame import Frame
    from flambeau.codegen.schedule_cpu_rows import RowSchedule

    kernel = kn.fused("norm", [norm_of_gelu()]).kernel
    schedule = RowSchedule(
        Frame(Function(Module("x86_64-unknown-linux-gnu"), "define void @kernel()"), kernel)
    )
    level, output, part = schedule.stashed
    assert (level, output) == (0, 0)
    assert sum(e.op == "call:erf" for e in ex.walk([part])) == 1
    cheap = kn.fused("centred", [leaf(0) - kn.mean(leaf(0) * 2.0)]).kernel
    assert RowSchedule(Frame(Function(Module("x"), "define void @kernel()"), cheap)).stashed is None
    assert math.isfinite(schedule.work(part))
