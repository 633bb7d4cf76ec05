"""Every operation of the registry on an OpenCL device: the same values and gradients as on the CPU, whose own are tested
against independent references.  FLAMBEAU_TEST_DEVICE=cuda runs the same on another kind of device.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(flambeau, TYPE).is_available():
    pytest.skip(
        f"no {TYPE} device; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes one for OpenCL",
        allow_module_level=True,
    )

DEVICE = flambeau.device(TYPE, 0)
POINTWISE = [e for e in REGISTRY.values() if e.kind == "pointwise" and e.places]
# One over another's kernel has no body.
REDUCTIONS = [
    e for e in REGISTRY.values() if e.kind in ("reduction", "row") and e.places and e.body is not None
]
name_of = lambda entry: entry.name


def several(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def assert_equal(actual, expected, strides=None):
    """The same bits (any NaN for a NaN), on the device and on the CPU; `strides` are those of `expected` if not given."""
    strides = strides or [b.stride() for b in several(expected)]
    for a, b, stride in zip(several(actual), several(expected), strides, strict=True):
        assert a.device == DEVICE and b.is_cpu
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, stride)
        a, b = (x.detach().cpu().contiguous() for x in (a, b))
        if a.dtype == flambeau.bfloat16:
            a, b = a.float(), b.float()
        if a.dtype == flambeau.complex32:
            a, b = a.to(flambeau.complex64), b.to(flambeau.complex64)
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def assert_close(actual, expected, tolerance=1e-5, atol=None):
    for a, b in zip(several(actual), several(expected), strict=True):
        assert a.device == DEVICE and b.is_cpu
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = (x.detach().cpu() for x in (a, b))
        if a.dtype in (flambeau.bfloat16, flambeau.float16):
            a, b, tolerance = a.float(), b.float(), 2e-2
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=atol or tolerance)


def sample(entry, shape, dtype):
    """Operands of that shape on the CPU: random numbers from the operation's domain, bool for conditions and masks,
    small integers for positions.
    """
    rng = np.random.default_rng(5)
    low, high = entry.domain
    results = []
    for operand in entry.details["operands"]:
        if operand in ("condition", "mask"):
            results.append(flambeau.from_numpy(np.asarray(rng.random(shape) < 0.5)))
        elif operand in entry.details["raw"]:  # a position
            results.append(flambeau.from_numpy(rng.integers(0, 9, shape)))
        else:
            values = flambeau.from_numpy(np.asarray(rng.uniform(low, high, shape)))
            results.append(values.to(getattr(flambeau, dtype)))
    return results


def params(entry):
    """Values for scalar parameters that have no default."""
    names = entry.function.__signature__.parameters.items()
    return {n: 0.5 for n, p in names if p.default is p.empty and n not in entry.details["operands"]}


def supported(entry, dtypes):
    return [d for d in dtypes if d in entry.dtypes]


VIEWS = (lambda x: x[::2, 1::3], lambda x: x.t(), lambda x: x[:1, :].expand(4, 37))


@pytest.mark.parametrize("entry", POINTWISE, ids=name_of)
def test_pointwise(entry):
    """Every dtype, and every layout with the first of them and one in turn with the others: the bits of the CPU, which
    computes once, without layouts; meta tensors say how results lie.
    """
    dtypes = (
        "float32",
        "float64",
        "int64",
        "uint8",
        "bool",
        "bfloat16",
        "float16",
        "complex64",
        "complex128",
    )
    for turn, dtype in enumerate(supported(entry, dtypes)):
        operands = sample(entry, (5, 37), dtype)
        moved = [x.to(DEVICE) for x in operands]
        expected = several(entry.function(*operands, **params(entry)))
        assert_equal(entry.function(*moved, **params(entry)), expected)
        for view in VIEWS if turn == 0 else VIEWS[turn % 3 :][:1]:
            lying = several(entry.function(*(view(x.to("meta")) for x in operands), **params(entry)))
            actual = entry.function(*map(view, moved), **params(entry))
            assert_equal(actual, tuple(map(view, expected)), [x.stride() for x in lying])


@pytest.mark.parametrize("entry", [e for e in POINTWISE if e.differentiable], ids=name_of)
def test_gradients_of_pointwise(entry):
    for dtype in supported(entry, ("float32", "float64")):
        gradients = []
        for place in ("cpu", DEVICE):
            operands = [x.to(place) for x in sample(entry, (4, 9), dtype)]
            wanted = [x.requires_grad_() for x in operands if x.is_floating_point()]
            results = several(entry.function(*operands, **params(entry)))
            results = [flambeau.view_as_real(r) if r.is_complex() else r for r in results]
            total = sum((r * 0.5).sum() for r in results if r.requires_grad)
            if not isinstance(total, flambeau.Tensor):
                assert not any(r.requires_grad for r in results)
                break
            gradients.append(
                [g for g in flambeau.autograd.grad(total, wanted, allow_unused=True) if g is not None]
            )
        else:
            assert_equal(gradients[1], gradients[0])


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 700), (50000, 3), (3, 70000)])
def test_reductions_and_rows(entry, shape):
    x = flambeau.from_numpy(np.random.default_rng(1).standard_normal(shape))
    rounding = 1e-8 * x.numel()  # of sums, which group their terms in another way
    for dtype in supported(entry, ("float32", "int64", "bool", "bfloat16")):
        operand = (x * 3).to(getattr(flambeau, dtype))
        for view in (lambda x: x, lambda x: x.transpose(0, -1), lambda x: x[::2]):
            for dim in (0, -1):
                expected = entry.function(view(operand), dim)
                assert_close(entry.function(view(operand.to(DEVICE)), dim), expected, atol=rounding)
        if entry.kind == "reduction":
            assert_close(entry.function(operand.to(DEVICE)), entry.function(operand), atol=rounding)


# --- operations that are not derived from a scalar body ------------------------------
INDEX = flambeau.tensor([[0, 1, 2, 0, 1, 2], [2, 2, 1, 0, 0, 1]])
ROWS, COLUMNS = flambeau.tensor([0, 3, 1, 1]), flambeau.tensor([5, -1, 0, 0])
F = flambeau.nn.functional


def on(x, index):
    """An index tensor where x is."""
    return index.to(x.device)


def written(x):
    """Assignments of numbers and tensors, to views and to places that indices and masks choose."""
    x = x.clone()
    x[0] = 5.0
    x[1:3, 2] = x[0, 0]
    x[ROWS, 0] = 1.5
    x[x < 0] = 0.25
    x[:, COLUMNS] = x[:, :4] * 2
    return x


CALLS = {
    # products
    "mm": lambda x, y: x @ y,
    "mm of transposed": lambda x, y: x.t().contiguous().t() @ y.t().contiguous().t(),
    "mv": lambda x, v: x @ v,
    "vm": lambda v, y: v @ y,
    "dot": lambda v: v @ v,
    "bmm": lambda b, c: b @ c,
    "stack by matrix": lambda b, y: b @ y,
    "addmm": lambda w, x, y: flambeau.addmm(w, x, y, beta=0.5, alpha=2.0),
    "linear": lambda b, y, w: F.linear(b, y.t(), w),
    "einsum": lambda b, c: flambeau.einsum("bij,bjk->ik", b, c),
    "outer": lambda v, w: flambeau.outer(v, w),
    "product of integers": lambda x, y: ((x * 9).long() @ (y * 9).long()) * (x.sum() + y.sum()),
    # places
    "gather 0": lambda x: x.gather(0, on(x, INDEX)),
    "gather 1": lambda x: x.gather(1, on(x, INDEX)),
    "scatter": lambda x: x.scatter(0, on(x, INDEX[:1]), x[:1] * 2),
    "scatter_add": lambda x: x.scatter_add(0, on(x, INDEX), x[:2]),
    "scatter amax": lambda x: x.scatter_reduce(0, on(x, INDEX), x[:2], "amax"),
    "scatter mean": lambda x: x.scatter_reduce(0, on(x, INDEX), x[:2], "mean"),
    "rows": lambda x: x[on(x, ROWS)],
    "pairs": lambda x: x[ROWS, COLUMNS],
    "columns": lambda x: x[:, COLUMNS],
    "apart": lambda b: b[ROWS[:2] % 3, :, COLUMNS[:2]],
    "mask": lambda x: x[x > 0],
    "a list": lambda x: x[[0, 2]],
    "a number": lambda x: x[flambeau.tensor(2)],
    "index_select": lambda x: x.index_select(1, on(x, ROWS)),
    "take": lambda x: x.take(on(x, ROWS)),
    "index_add": lambda x: x.index_add(0, on(x, ROWS), x * 2),
    "index_copy": lambda x: x.index_copy(0, on(x, ROWS[:2]), x[:2] * 3),
    "index_fill": lambda x: x.index_fill(1, on(x, ROWS), 7.0),
    "index_put": lambda x: x.index_put((on(x, ROWS), on(x, COLUMNS)), x[0, :4], accumulate=True),
    "masked_select": lambda x: x.masked_select(x > 0),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
    "nonzero": lambda x: (x > 0).nonzero() * x.sum(),
    "embedding": lambda x: F.embedding(on(x, ROWS), x),
    "one_hot": lambda x: F.one_hot(on(x, ROWS)) * x.sum(),
    "assignments": written,
    # shapes
    "tril": lambda x: x.tril(),
    "diag": lambda x: x.diag(),
    "pad": lambda x: F.pad(x, (1, 2)),
    "repeat": lambda x: x.repeat(2, 3),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0, 1),
    "cat": lambda x: flambeau.cat([x, x.flip(0)], 1),
    "stack": lambda x: flambeau.stack([x, x * 2], 1),
    "chunk": lambda x: x.chunk(2, 1)[1] * 2,
    "unbind": lambda x: x.unbind(0)[1],
    "unfold": lambda x: x.unfold(1, 3, 1) * 2,
    "expand": lambda v: v.expand(3, 6).sum(0),
    # scans, rows, losses, layers
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cummax": lambda x: x.cummax(1)[0],
    "var": lambda x: x.var(1),
    "norm": lambda x: x.norm(),
    "cross_entropy": lambda x: F.cross_entropy(x, on(x, flambeau.tensor([0, 1, 2, 5]))),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "interpolate": lambda b: F.interpolate(b, scale_factor=2),
    "attention": lambda b: F.scaled_dot_product_attention(b, b, b),
    "conv1d": lambda b: F.conv1d(b, b[:, :, :3].contiguous(), padding=1),
    "max_pool1d": lambda b: F.max_pool1d(b, 2),
    "avg_pool1d": lambda b: F.avg_pool1d(b, 2),
    # kernels beside the CPU's loops and libraries (operations/on_device)
    "sort": lambda x: x.sort(1)[0],
    "topk": lambda x: x.topk(2, 1)[0],
    "median": lambda x: x.median(1)[0],
    "quantile": lambda x: x.quantile(0.3),
    "unique": lambda x: x.detach().unique() * x.sum(),
    "svdvals": lambda x: flambeau.linalg.svdvals(x),
    "inv": lambda x: flambeau.linalg.inv(x[:4, :4]),
    "erfcx": lambda x: flambeau.special.erfcx(x.abs()),
}
SHAPES = {"x": (4, 6), "y": (6, 5), "b": (3, 4, 6), "c": (3, 6, 5), "v": (6,), "w": (5,)}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    """Values and gradients as on the CPU."""
    call = CALLS[name]
    rng = np.random.default_rng(4)
    names = call.__code__.co_varnames[: call.__code__.co_argcount]
    arrays = [rng.standard_normal(SHAPES[n]).astype("float32") for n in names]
    own = [flambeau.from_numpy(a).requires_grad_() for a in arrays]
    theirs = [flambeau.from_numpy(a).to(DEVICE).requires_grad_() for a in arrays]
    expected, actual = call(*own), call(*theirs)
    assert_close(actual, expected)
    assert actual.requires_grad == expected.requires_grad
    if expected.requires_grad:
        expected.square().sum().backward()
        actual.square().sum().backward()
        assert_close([x.grad for x in theirs], [x.grad for x in own], 1e-4)


# Every kind of kernel: of elements, with every dtype and layout, of rows and whole tensors, of places, scans and products.
SAMPLE = """
    test_pointwise and (fmod or polar or asinh) or test_gradients and hypot
    or shape1-argmax or shape1-softmax
    or test_calls and (attention or cumsum or scatter_add or assignments or pool)
    or test_random and dtype2 or test_optimisers and AdamW and fused
"""


@pytest.mark.skipif(TYPE != "opencl", reason="about the drivers of OpenCL")
def test_a_sample_as_the_driver_compiles_it_for_users():
    """conftest.py turns the driver's passes off, which take most of the time."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [__file__, "-k", " ".join(SAMPLE.split())]
    environment = os.environ | {"FLAMBEAU_OPENCL_OPTIONS": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(TYPE != "opencl", reason="about the drivers of OpenCL")
def test_options_that_the_driver_does_not_know():
    program = "import flambeau; flambeau.ones(3, device='opencl').exp()"
    environment = os.environ | {"FLAMBEAU_OPENCL_OPTIONS": "-no-such-option"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "-no-such-option' failed with code -43" in done.stderr  # CL_INVALID_BUILD_OPTIONS


@pytest.mark.parametrize("draw", [flambeau.rand, flambeau.randn])
@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.float16])
def test_random_numbers_are_those_of_the_cpu(draw, dtype):
    generator = flambeau.Generator(device=DEVICE).manual_seed(9)
    assert generator.device == DEVICE
    result = draw(1003, dtype=dtype, device=DEVICE, generator=generator)
    assert_equal(result, draw(1003, dtype=dtype, generator=flambeau.Generator().manual_seed(9)))


def test_a_network_learns_as_on_the_cpu():
    losses = []
    for place in ("cpu", DEVICE):
        flambeau.manual_seed(0)
        nn = flambeau.nn
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
        ).to(place)
        optimiser = flambeau.optim.Adam(net.parameters(), lr=1e-2)
        flambeau.manual_seed(0)  # the network's numbers were drawn on the host for either
        inputs = flambeau.randn(16, 1, 8, 8, device=place)
        targets = flambeau.randint(0, 10, (16,), device=place)
        for _ in range(4):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(inputs), targets)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    np.testing.assert_allclose(losses[4:], losses[:4], rtol=1e-4)
    assert losses[7] < losses[4]


@pytest.mark.parametrize(
    "flags", [{}, {"capturable": True}, {"fused": True}, {"differentiable": True}], ids=str
)
@pytest.mark.parametrize(
    "name",
    ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"],
)
def test_optimisers_step_as_on_the_cpu(name, flags):
    """Whatever runs the rule: the fused kernel, or operations on tensors of the device."""
    cls = getattr(flambeau.optim, name)
    if not set(flags) <= set(inspect.signature(cls).parameters):
        flags = {"foreach": True}
    results = []
    for place in ("cpu", DEVICE):
        options = {} if place == "cpu" and "capturable" in flags else flags
        real, z = flambeau.ones(5, device=place), flambeau.ones(2, dtype=flambeau.complex64, device=place)
        params = [real] if "fused" in flags else [real, z]
        for p in params:
            p.requires_grad_("differentiable" not in flags)
        optimizer = cls(params, lr=0.1, weight_decay=0.1, **options)
        for t in range(3):
            for p in params:
                p.grad = flambeau.linspace(-1, 2, p.numel(), device=place).to(p.dtype) * (t + 1)
            optimizer.step()
        results.append([p.detach().cpu().numpy() for p in params])
        for entries in optimizer.state.values():
            if "step" in entries:
                beside = "capturable" in options or "fused" in options
                assert entries["step"].item() == 3 and entries["step"].device.type == (
                    flambeau.device(place if beside else "cpu").type
                )
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "name, tolerance",
    [("Rprop", 0), ("Adafactor", 1e-6), ("Muon", 0.02), ("LBFGS", 1e-6)],
)
def test_optimisers_of_other_kinds_step_as_on_the_cpu(name, tolerance):
    """Signs, matrices and lines; Muon's products are rounded to bfloat16."""
    results = []
    for place in ("cpu", DEVICE):
        p = flambeau.linspace(-1, 1, 12).reshape(4, 3).to(place).requires_grad_()
        optimizer = getattr(flambeau.optim, name)([p], lr=0.1)

        def closure():
            p.grad = (flambeau.arange(12.0) ** 2).sin().reshape(4, 3).to(place)  # noqa: B023
            return flambeau.tensor(0.0)

        for _ in range(3):
            optimizer.step(closure)
        assert p.device.type == flambeau.device(place).type
        results.append(p.detach().cpu().numpy())
    np.testing.assert_allclose(results[1], results[0], atol=tolerance)
