"""Chains of functions run function by function over blocks: the stages that expressions are cut into, and the bits of eager calls."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flambeau
from flambeau.codegen import expr as ex
from flambeau.codegen.stages import BLOCK_BYTES, stages_of
from flambeau.graph.lower import plan
from flambeau.graph.program import Program
from flambeau.graph.trace import record

FUNCTIONS = ["exp", "sin", "tanh", "sigmoid", "log1p", "erf"]


def leaf(k, dtype="float32"):
    return ex.make("input", (), dtype, k)


def call(name, *args):
    return ex.make(f"call:{name}", args, args[0].dtype)


def test_one_function_needs_no_stages():
    x = leaf(0)
    assert stages_of([call("exp", x) * 2, call("sin", x) + 1]) is None
    number = call("exp", ex.make("param", (), "float32", 0))
    assert stages_of([call("exp", x * call("sin", number))]) is None  # of numbers: once a call


def test_roundings_to_half_types_count_where_more_follows():
    x = ex.cast(leaf(0, "bfloat16"), "float32")
    rounded = ex.cast(call("exp", x), "bfloat16")
    assert stages_of([rounded]) is None
    found = stages_of([ex.cast(ex.cast(rounded, "float32") * 2, "bfloat16")])
    assert [len(s.outputs) for s in found.stages] == [0, 1]
    assert found.blocks == ["bfloat16"] or found.blocks == ["float32"]


def test_a_chain_keeps_one_value_at_a_time():
    y = leaf(0)
    for _ in range(5):
        y = call("exp", y)
    found = stages_of([y])
    assert [(s.outputs, len(s.keeps), len(s.reads)) for s in found.stages] == [
        ([], 1, 0),
        ([], 1, 1),
        ([], 1, 1),
        ([], 1, 1),
        ([0], 0, 1),
    ]
    assert found.blocks == ["float32"] * 2  # what is read and what is written, in turn


def test_outputs_leave_in_the_last_stage():
    """Earlier ones would write over what later stages read."""
    x = leaf(0)
    a = call("exp", x)
    b = call("sin", a) * a
    found = stages_of([a, b, x + 1])
    assert [s.outputs for s in found.stages] == [[], [0, 1, 2]]
    assert [k.value is a for k in found.stages[1].reads] == [True]


@pytest.mark.parametrize("seed", range(20))
def test_chains_in_place(seed):
    """What is written to is read by later functions as it was before, or as it is then, as the program says."""
    draw = random.Random(seed)
    numbers = [(draw.random(), draw.random(), draw.random()) for _ in range(10)]

    def body(x, y):
        values = [x, y]
        for a, b, c in numbers:
            p, q = values[int(a * len(values))], values[int(b * len(values))]
            kind = int(c * 9)
            if kind < 4:
                values.append(getattr(p, FUNCTIONS[kind])() * 0.5)
            elif kind == 4:
                values.append(p.bfloat16().float() + q)
            elif kind == 5:
                values.append(x.mul_(0.5).add_(q.tanh()))
            elif kind == 6:
                values.append(y.copy_(p))
            elif kind == 7:
                flambeau.tanh(p, out=p)
            else:
                values.append(p * q)
        return values[-1], values[-2]

    for n in (1, 33, 700):
        x, y = flambeau.linspace(-1, 1, n), flambeau.linspace(0.1, 0.9, n)
        runner = plan(Program(record(body, x.clone(), y.clone())[0]))
        ours, theirs = (x.clone(), y.clone()), (x.clone(), y.clone())
        for a, b in zip((*runner(*ours), *ours), (*body(*theirs), *theirs), strict=True):
            assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def test_what_is_written_to_after_it_was_read():
    def body(x):
        y = x.exp().sin() * x
        x.add_(1)
        return y

    for n in (5, 700):
        ours, theirs = flambeau.linspace(-1, 1, n), flambeau.linspace(-1, 1, n)
        runner = plan(Program(record(body, ours.clone())[0]))
        assert len(runner.steps) == 1
        assert runner(ours).tolist() == body(theirs).tolist() and ours.tolist() == theirs.tolist()


def test_blocks_fit_the_nearest_cache():
    x = leaf(0, "float64")
    values = [call("exp", x * k) for k in range(40)]
    total = values[0]
    for v in values[1:]:
        total = total + v
    product = values[0]
    for v in values[1:]:
        product = product * call("sin", v + total)
    found = stages_of([product])
    assert len(found.blocks) >= 40 and found.elements * 8 * len(found.blocks) <= max(BLOCK_BYTES, 64 * 8 * 42)
    assert found.elements % 64 == 0


SIZES = (0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1030)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_size_has_the_bits_of_eager(name, dtype):
    def chained(x):
        for _ in range(4):
            x = getattr(x, name)() * 0.5
        return x

    for size in SIZES:
        x = flambeau.linspace(0.1, 0.9, size).to(getattr(flambeau, dtype))
        runner = plan(Program(record(chained, x)[0]))
        found, expected = runner(x), chained(x)
        assert np.array_equal(found.double().numpy(), expected.double().numpy())


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed):
    """Several inputs, broadcasts, gaps and transposed operands, conditions, several outputs, values that many read."""
    draw = random.Random(seed)
    numbers = [(draw.random(), draw.random(), draw.random()) for _ in range(12)]

    def body(*inputs):
        values = list(inputs)
        for a, b, c in numbers:
            x, y = values[int(a * len(values))], values[int(b * len(values))]
            kind = int(c * 10)
            if kind < 6:
                made = getattr(x.abs() * 0.4 + 0.1, FUNCTIONS[kind])()
            else:
                made = (x * y, x + y, flambeau.where(x > y, x, y), (x > 0).float() * 0.5 + x)[kind - 6]
            values.append(made.clamp(-2, 2))
        return values[-1], values[-3], values[-5]

    for n in (1, 7, 64, 517):
        wide = flambeau.linspace(-1, 1, 5 * 2 * n).reshape(5, 2 * n)
        inputs = [
            wide[:, :n],
            flambeau.linspace(0, 1, n),
            flambeau.linspace(0, 1, 5)[:, None],
            wide[:, n:].mT.clone().mT,
        ]
        runner = plan(Program(record(body, *inputs)[0]))
        for a, b in zip(runner(*inputs), body(*inputs), strict=True):
            assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


def test_complex_numbers_and_conditions_between_functions():
    def chained(z):
        y = (z * 0.3).exp().sin()
        return flambeau.where((y.real.abs() + 0.1).log() > 0, y, z.exp().cos())

    z = flambeau.complex(flambeau.linspace(-1, 1, 700), flambeau.linspace(1, 2, 700))
    runner = plan(Program(record(chained, z)[0]))
    assert np.array_equal(runner(z).numpy(), chained(z).numpy())


def chained(x):
    for _ in range(3):
        x = (x * 1.01).tanh() - 0.1
    return x


ROWS = {
    "one sum": lambda x: chained(x).sum(),
    "a sum of rows": lambda x: chained(x).sum(-1),
    "a sum of columns": lambda x: chained(x).sum(0),
    "a maximum": lambda x: chained(x).exp().sin().amax(-1),
    "softmax": lambda x: chained(x).softmax(-1),
    "softmax of columns": lambda x: chained(x).softmax(0),
    "a norm": lambda x: flambeau.nn.functional.layer_norm(chained(x), x.shape[-1:]),
    "folds of several chains": lambda x: (
        chained(x).logsumexp(-1) * x.exp().tanh().mean(-1),
        chained(x).var(-1),
        x.exp().log1p(),
    ),
    "half types": lambda x: (x.bfloat16() * 2 + 1).sigmoid().sum(-1),
    "a scan": lambda x: chained(x).exp().cumsum(-1),
    "functions of a scan": lambda x: chained(x).logcumsumexp(-1).sin().exp(),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    function = ROWS[name]
    for shape in ((64, 33), (3, 1000), (7, 70), (5, 17), (1, 5000), (2, 1), (600, 3)):
        x = flambeau.linspace(-1, 1, shape[0] * shape[1]).reshape(shape)
        for given in (x, x.mT.contiguous().mT, x[:, ::2] if shape[1] > 2 else x):
            runner = plan(Program(record(function, given)[0]))
            found, expected = runner(given), function(given)
            pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
            for a, b in pairs:
                rough = 2e-2 if a.dtype == flambeau.bfloat16 else 2e-5
                np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=rough, atol=rough)
